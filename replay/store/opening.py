"""Opening a store: for its one writer, or to read beside it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import lmdb
import msgspec

from replay.state import Change
from replay.store.cut import check_length
from replay.store.older import from_format_1
from replay.store.store import TABLES, Store, unwritable
from spade.errors import RunError

FORMAT = 2
FIRST_MAP_BYTES = 64 * 1024 * 1024


class Format(msgspec.Struct):
    """The first record of every store."""

    format: int


@contextmanager
def open_store(path: Path, durability: Literal["sync", "nosync"]) -> Iterator[Store]:
    """The store at `path` for its one writer, made if it is not there.

    Raises RunError where another service has it, its format is not ours, its file was cut short, or the disk is full.
    """
    path.mkdir(parents=True, exist_ok=True)
    with lock(path / "writer.lock"):
        try:
            environment = lmdb.open(str(path), map_size=_map_size(path), max_dbs=TABLES, sync=durability == "sync")
        except lmdb.Error as error:
            raise RunError(f"{path}: the store cannot be opened ({error})") from None
        try:
            check_length(environment)
            yield _prepared(environment)
            environment.sync(True)
        except lmdb.Error as error:
            raise unwritable(str(path), error) from None
        finally:
            environment.close()


def _prepared(environment: lmdb.Environment) -> Store:
    """The store in an environment, begun if it is empty, migrated if it is of an older format."""
    found = _format(environment)  # asked before tables are made: another format's are not ours
    store = Store(environment, create=True)
    ours: Change = ("meta", "format", Format(FORMAT))
    if found is None:
        store.commit(store.encode([ours]))
    elif found < FORMAT:
        store.move_to_log(from_format_1, ours)
    return store


@contextmanager
def open_reader(path: Path) -> Iterator[Store]:
    """The store at `path` to read, whether its service is up or not. Raises RunError where no whole one is."""
    try:
        environment = lmdb.open(str(path), readonly=True, create=False, max_dbs=TABLES)
    except lmdb.Error as error:
        raise RunError(f"{path}: no store can be read here ({error})") from None
    try:
        check_length(environment)
        found = _format(environment)
        if found is None:
            raise RunError(f"{path}: no store can be read here (nothing was ever committed)")
        if found < FORMAT:
            raise RunError(f"{path}: the store has the older format {found}; resume the run once, that migrates it")
        yield Store(environment, create=False)
    finally:
        environment.close()


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold the writer's lock; the kernel frees it when the process ends, however it ends."""
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise RunError(
                f"{path.parent}: another replay service has this store (pid {file.read().strip()}); stop it first"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _map_size(path: Path) -> int:
    """Room for what is there and as much again, in powers of two, so that growing is rare."""
    data = path / "data.mdb"
    size = FIRST_MAP_BYTES
    while data.exists() and size < 2 * data.stat().st_size:
        size *= 2
    return size


def _format(environment: lmdb.Environment) -> int | None:
    """The store's format, None before its first commit. Raises RunError where it is newer than ours."""
    try:
        meta = environment.open_db(b"meta", create=False)
    except lmdb.NotFoundError:
        return None
    with environment.begin() as transaction:
        data = transaction.get(b"format", db=meta)
    if data is None:
        return None
    found = msgspec.msgpack.decode(data, type=Format).format
    if found > FORMAT:
        raise RunError(
            f"{environment.path()}: the store has format {found}, this version of spade reads {FORMAT}; "
            "use the version that wrote it, or start a new run"
        )
    return found
