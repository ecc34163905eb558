"""Shared by the tests of replay."""

import shutil

import pytest

from tests.replay.kept_world import keep_world


@pytest.fixture(scope="session")
def untouched(tmp_path_factory):
    """The store of a minute with accidents, which leaves groups in the queue. Read only: tests share it."""
    folder = tmp_path_factory.mktemp("store")
    assert len(keep_world(folder, 4).batches) > 3
    return folder


@pytest.fixture
def kept(untouched, tmp_path):
    """The same store, to be damaged."""
    return shutil.copytree(untouched, tmp_path / "store")
