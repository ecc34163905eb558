"""Shared by the tests of actors."""

from functools import partial

import pytest

from actors.sandbox import open_sandbox
from tests.actors.kept_sandbox import keep_sandbox
from tests.actors.odd_programs import LIMITS
from tests.actors.small_services import byte_tokenizer


def pytest_itemcollected(item):
    """A test of the kept sandbox runs in its event loop."""
    if "sandbox" in item.fixturenames:
        item.add_marker(pytest.mark.trio(run=partial(run_beside_sandbox, item)), append=False)


def run_beside_sandbox(item, test, **how):
    return item.funcargs["kept_sandbox"].run(test, **how)


@pytest.fixture
def tokenizer(tmp_path):
    return byte_tokenizer(tmp_path)


@pytest.fixture(scope="module")
def kept_limits():
    """The limits of `sandbox`. A file with other limits has a fixture of this name."""
    return LIMITS


@pytest.fixture(scope="module")  # not longer: some files count the processes and descriptors of this one
def kept_sandbox(kept_limits):
    with keep_sandbox(kept_limits) as kept:
        yield kept


@pytest.fixture
async def sandbox(kept_sandbox):
    """A sandbox that other tests have used and will use: a test changes nothing of it but its episodes."""
    yield kept_sandbox.sandbox
    kept_sandbox.tidy()


@pytest.fixture
async def own_sandbox():
    """For a test that changes limits, kills zygotes, or has a clock of its own."""
    async with open_sandbox(LIMITS) as opened:
        yield opened
