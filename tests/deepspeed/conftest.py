"""The policy of the learner's tests, one for all tests; DeepSpeed's own warnings are not ours to mend."""

import functools
import os

import pytest

from tests.deepspeed.backends import STEPS, alone, life, tensors
from tests.learner.conftest import make_policy, write_checkpoint

os.environ["DS_ACCELERATOR"] = "cpu"  # for the process that imports DeepSpeed and is forked


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/deepspeed" in str(item.path):
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="session")
def policy():
    return make_policy()


@pytest.fixture(scope="session")
def checkpoint_folder(policy, tmp_path_factory):
    return write_checkpoint(policy, tmp_path_factory.mktemp("checkpoint") / "model")


@pytest.fixture(scope="session")
def train_torch(tmp_path_factory):
    """A function that returns (state, metrics) after five steps of the torch backend. It trains once for each case."""

    @functools.cache
    def train(policy, folder, settings=()):
        out = tmp_path_factory.mktemp("torch") / "state"
        metrics = alone(life, folder, settings, policy, STEPS, out)
        return tensors(out), metrics

    return train
