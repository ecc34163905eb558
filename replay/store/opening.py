"""Open a store: as its one writer, or as a reader beside the writer."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal, TextIO, cast

import lmdb
import msgspec

from replay.store.check import FORMAT, Format, check_all, check_heads, check_quickly, refuse_irregular_files
from replay.store.refusal import make_unreadable_error, make_unwritable_error
from replay.store.seal import seal_records
from replay.store.store import NAMES, Commit, Store
from spade.errors import RunError, format_reason

FIRST_MAP_BYTES = 64 * 1024 * 1024


@contextmanager
def open_store(path: Path, durability: Literal["sync", "nosync"]) -> Iterator[Store]:
    """Open the store at `path` as its one writer. If there is no store, make one.

    Raises RunError if another writer has the store open, or if it has another format, is damaged or cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{path}: no store can be made here ({format_reason(error)})") from None
    with lock(path / "writer.lock"):
        check_heads(path)
        try:
            environment = lmdb.open(str(path), map_size=_map_size(path), max_dbs=len(NAMES), sync=durability == "sync")
        except lmdb.Error as error:
            raise make_unwritable_error(str(path), error) from None
        try:
            if environment.info()["last_txnid"] == 0:
                _make_tables(environment)
            check_quickly(environment)
            yield Store(environment)
            environment.sync(True)
        except lmdb.Error as error:
            raise make_unwritable_error(str(path), error) from None
        finally:
            environment.close()


def _make_tables(environment: lmdb.Environment) -> None:
    """Make all tables of a new store in one commit. So if a table is missing later, it was lost."""
    with environment.begin(write=True) as transaction:
        tables = {name: environment.open_db(name.encode(), txn=transaction) for name in NAMES}
        first = {b"format": Format(FORMAT), b"commit": Commit(transaction.id())}
        for key, record in seal_records("meta", [(key, msgspec.msgpack.encode(one)) for key, one in first.items()]):
            transaction.put(key, record, db=tables["meta"])


@contextmanager
def open_reader(path: Path) -> Iterator[Store]:
    """Open the store at `path` to read, even while its service is running.

    Raises RunError if the store is missing or has another format. Raises DamagedError with all faults of its pages.
    """
    with _open_readable(path) as environment:
        if environment.info()["last_txnid"] == 0:
            raise RunError(f"{path}: no store can be read here (nothing was ever committed)")
        check_all(environment)
        yield Store(environment)


@contextmanager
def _open_readable(path: Path) -> Iterator[lmdb.Environment]:
    """Open an LMDB environment to read. If LMDB's lock file is not writable, lock out writers meanwhile."""
    check_heads(path)
    with ExitStack() as stack:
        try:
            try:
                environment = lmdb.open(str(path), readonly=True, create=False, max_dbs=len(NAMES))
            except lmdb.ReadonlyError:
                stack.enter_context(_lock_writers_out(path / "writer.lock"))
                environment = lmdb.open(str(path), readonly=True, create=False, max_dbs=len(NAMES), lock=False)
        except lmdb.Error as error:
            raise make_unreadable_error(str(path), error) from None
        stack.callback(environment.close)
        yield environment


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold the writer's lock. The kernel frees it when the process ends. Raises RunError if another process has it."""
    refuse_irregular_files(path.parent)
    with _open_file(path, "a+") as file:
        _hold(file, fcntl.LOCK_EX)
        try:
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
        except OSError as error:
            raise RunError(f"{path}: cannot be written ({format_reason(error)})") from None
        yield


@contextmanager
def _lock_writers_out(path: Path) -> Iterator[None]:
    """Lock out writers by a shared lock, which a process can take without the right to write the file."""
    with _open_file(path, "r") as file:
        _hold(file, fcntl.LOCK_SH)
        yield


def _open_file(path: Path, mode: str) -> TextIO:
    try:
        return cast(TextIO, path.open(mode))
    except OSError as error:
        raise RunError(f"{path}: cannot be opened ({format_reason(error)})") from None


def _hold(file: TextIO, kind: int) -> None:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        raise RunError(
            f"{Path(file.name).parent}: another replay service has this store (pid {file.read().strip()}); "
            "stop it first"
        ) from None


def _map_size(path: Path) -> int:
    """Return a size for LMDB's map that seldom has to grow: at least twice the file, 64 MiB times a power of two."""
    data = path / "data.mdb"
    size = FIRST_MAP_BYTES
    while data.exists() and size < 2 * data.stat().st_size:
        size *= 2
    return size
