"""Compact a store: make its file as small as its records."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replay.store.opening import lock, open_reader
from replay.store.store import Store
from spade.disk import DRAFT, open_draft, sync
from spade.errors import RunError


def compact(path: Path) -> tuple[int, int]:
    """Replace the store's file by a compact copy. Returns the file's size before and after, in bytes.

    The copy is durable before it is renamed, so that a crash leaves one whole file. Raises RunError if a replay service
    or a reader has the store open, if the store is damaged, or if the disk lacks space for the copy.
    """
    if not path.is_dir():
        raise RunError(f"{path}: no store is here")
    with lock(path / "writer.lock"):
        for left in path.glob(f"{DRAFT}*"):
            shutil.rmtree(left)
        with open_draft(path) as copy:
            with open_reader(path) as store:
                _check_records(store)
                store.copy(copy)
            with open_reader(copy) as copied:
                _check_records(copied)
            data, compacted = path / "data.mdb", copy / "data.mdb"
            sizes = data.stat().st_size, compacted.stat().st_size
            sync(compacted)
            with _lock_alone(path / "lock.mdb"):
                os.replace(compacted, data)
                # The lock file is about the old file. The next process that opens the store makes a new lock file.
                (path / "lock.mdb").unlink()
            sync(path)
    return sizes


def _check_records(store: Store) -> None:
    """Read every record, because copying a damaged store would lose its damaged records for ever.

    Raises DamagedError.
    """
    for table in store.extents():
        for _ in store.each(table):
            pass


@contextmanager
def _lock_alone(path: Path) -> Iterator[None]:
    """Lock LMDB's lock file as its first opener does. Raises RunError if a process has the store open."""
    with path.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
        except OSError:
            raise RunError(f"{path.parent}: another process reads this store; try again when it is done") from None
        yield
