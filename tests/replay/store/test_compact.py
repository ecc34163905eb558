"""Compaction: the same records in a smaller file, and never under anybody's feet."""

import os
import subprocess
import sys

import pytest

from replay.inspect.contents import read_contents
from replay.inspect.verify import find_problems
from replay.ledger.records import Reject
from replay.store import open_reader, open_store
from replay.store.compact import compact
from spade.disk import DRAFT
from spade.errors import RunError
from tests.replay.kept_world import keep_world

HOLD = (
    "import sys; from pathlib import Path; from replay.store import open_reader, open_store\n"
    "store = open_store(Path(sys.argv[1]), 'nosync') if sys.argv[2] == 'service' else open_reader(Path(sys.argv[1]))\n"
    "with store: print('open', flush=True); input()\n"
)


def fill(folder):
    """A run, and much beside it that is deleted again."""
    keep_world(folder, 2, 30.0)
    with open_store(folder, "nosync") as store:
        waste = [Reject("x", 1, 1, "s", "d", "x" * 100_000, "parse", "no class", 0.0)] * 100
        keys = [f"waste-{number}" for number in range(100)]
        store.commit(store.encode([("rejects", key, one) for key, one in zip(keys, waste, strict=True)]))
        store.commit(store.encode([("rejects", key, None) for key in keys]))


def records(folder):
    with open_reader(folder) as store:
        assert find_problems(read_contents(store)) == []
        return {table: list(store.each(table)) for table in store.extents()}


def test_the_file_shrinks_and_holds_the_same(tmp_path):
    fill(tmp_path)
    before = records(tmp_path)
    old, new = compact(tmp_path)
    assert new == (tmp_path / "data.mdb").stat().st_size < old - 9_000_000
    assert records(tmp_path) == before
    # Its next service writes to it as to any other.
    with open_store(tmp_path, "sync") as store:
        store.commit(store.encode([("rejects", "a", Reject("x", 1, 1, "s", "d", "", "parse", "", 0.0))]))
    with open_reader(tmp_path) as store:
        assert store.get("rejects", "a", Reject) is not None
    assert sorted(os.listdir(tmp_path)) == ["data.mdb", "lock.mdb", "writer.lock"]


@pytest.mark.parametrize(("holder", "says"), [("service", "another replay service"), ("reader", "reads this store")])
def test_a_store_in_use_is_left_alone(tmp_path, holder, says):
    fill(tmp_path)
    inode = (tmp_path / "data.mdb").stat().st_ino
    command = [sys.executable, "-c", HOLD, str(tmp_path), holder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "open\n"
        with pytest.raises(RunError, match=says):
            compact(tmp_path)
        process.communicate("\n", timeout=120)
    assert (tmp_path / "data.mdb").stat().st_ino == inode
    assert not list(tmp_path.glob(f"{DRAFT}*"))
    compact(tmp_path)


def test_killed_before_the_swap_it_leaves_the_old_file_and_the_next_one_clears_up(tmp_path):
    fill(tmp_path)
    before = records(tmp_path)
    code = (
        "import os, signal, sys; from pathlib import Path; from replay.store import compact\n"
        "compact.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "compact.compact(Path(sys.argv[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=120).returncode == -9
    assert len(list(tmp_path.glob(f"{DRAFT}*"))) == 1
    assert records(tmp_path) == before
    compact(tmp_path)
    assert records(tmp_path) == before
    assert not list(tmp_path.glob(f"{DRAFT}*"))
