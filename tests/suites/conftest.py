"""Shared by the tests of suites."""

import pytest

from tests.actors.conftest import pytest_itemcollected, sandbox  # noqa: F401
from tests.actors.kept_sandbox import keep_sandbox
from tests.suites.plays import limits


@pytest.fixture(scope="session")
def kept_sandbox():
    """A sandbox with all libraries, which take seconds to load, for all tests that leave it as they found it."""
    with keep_sandbox(limits()) as kept:
        yield kept
