"""The policy of the learner's tests; DeepSpeed's own warnings are not ours to mend."""

import os

import pytest

from tests.learner.conftest import checkpoint_folder, policy  # noqa: F401

os.environ["DS_ACCELERATOR"] = "cpu"  # for the process that imports DeepSpeed and is forked


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/deepspeed" in str(item.path):
            item.add_marker(pytest.mark.filterwarnings("default"))
