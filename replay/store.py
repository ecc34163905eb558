"""The one durable store of a run, on LMDB: a table for each kind of record, one writer, a commit whole or not at all.

An acknowledgement means that `commit` returned. With durability "sync" that survives the machine's death, with
"nosync" the process's. Readers in other processes see the last commit, while the service is up or not.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Literal, TypeVar, get_args

import lmdb
import msgspec

from replay.state import Change, Table
from spade.errors import RunError

FORMAT = 1
FIRST_MAP_BYTES = 64 * 1024 * 1024
PAGE = 256  # records of one read while a table is walked

Result = TypeVar("Result")
Value = TypeVar("Value")


class Format(msgspec.Struct):
    """The first record of every store."""

    format: int


class Extent(msgspec.Struct, frozen=True):
    """A table's records, and the bytes of the pages they fill."""

    records: int
    bytes: int


class Store:
    """An open store. `open_store` and `open_reader` make one."""

    def __init__(self, environment: lmdb.Environment, create: bool) -> None:
        self._environment = environment
        self._tables = {table: environment.open_db(table.encode(), create=create) for table in get_args(Table)}
        self._encoder = msgspec.msgpack.Encoder()
        self._pinned: lmdb.Transaction | None = None

    @property
    def path(self) -> str:
        """Where it is."""
        return str(self._environment.path())

    def encode(self, changes: Sequence[Change]) -> list[tuple[Table, bytes, bytes | None]]:
        """Changes as the bytes they will be, so that records may change while these are committed."""
        return [
            (table, key.encode(), None if record is None else self._encoder.encode(record))
            for table, key, record in changes
        ]

    def commit(self, encoded: Sequence[tuple[Table, bytes, bytes | None]]) -> None:
        """Write everything, or nothing; the map grows where it is too small.

        Raises RunError where the disk is full or fails; what was committed before is untouched.
        """
        while True:
            try:
                with self._environment.begin(write=True) as transaction:
                    for table, key, value in encoded:
                        if value is None:
                            transaction.delete(key, db=self._tables[table])
                        else:
                            transaction.put(key, value, db=self._tables[table])
                return
            except lmdb.MapFullError:
                self._environment.set_mapsize(2 * self._environment.info()["map_size"])
            except lmdb.Error as error:
                raise _unwritable(self.path, error) from None

    def table_bytes(self, table: Table) -> int:
        """What a table takes, in whole pages."""
        with self._environment.begin() as transaction:
            stat = transaction.stat(self._tables[table])
        pages: int = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        return pages * int(stat["psize"])

    def get(self, table: Table, key: str, kind: type[Value]) -> Value | None:
        """One record, None where there is none; also for a key that no record can have."""
        if not 0 < len(key.encode()) <= self._environment.max_key_size():
            return None
        data = self._read(lambda transaction: transaction.get(key.encode(), db=self._tables[table]))
        return None if data is None else msgspec.msgpack.decode(data, type=kind)

    def get_many(self, table: Table, keys: Sequence[str], kind: type[Value]) -> list[Value]:
        """Records that must be there, in the order of `keys`. Raises RunError where one is not."""
        found = self._read(lambda transaction: [transaction.get(key.encode(), db=self._tables[table]) for key in keys])
        decoder = msgspec.msgpack.Decoder(kind)
        values = []
        for key, data in zip(keys, found, strict=True):
            if data is None:
                raise RunError(f"{self.path}: {table} {key} is missing; the store is damaged, restore it from a copy")
            values.append(decoder.decode(data))
        return values

    def scan(self, table: Table, kind: type[Value], start: str = "", prefix: str = "") -> list[Value]:
        """Records whose key begins with `prefix` and is not under `start`, in the order of their keys."""
        decoder = msgspec.msgpack.Decoder(kind)

        def read(transaction: lmdb.Transaction) -> list[Value]:
            found: list[Value] = []
            with transaction.cursor(db=self._tables[table]) as cursor:
                if cursor.set_range(max(start, prefix).encode()):
                    for key, data in cursor:
                        if not bytes(key).startswith(prefix.encode()):
                            break
                        found.append(decoder.decode(data))
            return found

        return self._read(read)

    def each(self, table: Table) -> Iterator[tuple[str, bytes]]:
        """All keys of a table with their encoded records, in order, however many; read a page at a time."""
        start = b""
        while page := self._read(lambda transaction, start=start: self._page(transaction, table, start)):  # type: ignore[misc]
            yield from ((key.decode(), data) for key, data in page)
            start = page[-1][0] + b"\0"

    def _page(self, transaction: lmdb.Transaction, table: Table, start: bytes) -> list[tuple[bytes, bytes]]:
        with transaction.cursor(db=self._tables[table]) as cursor:
            found = islice(cursor, PAGE) if cursor.set_range(start) else ()
            return [(bytes(key), bytes(data)) for key, data in found]

    def extents(self) -> dict[Table, Extent]:
        """The size of every table."""

        def read(transaction: lmdb.Transaction) -> dict[Table, Extent]:
            found = {}
            for table, handle in self._tables.items():
                stat = transaction.stat(handle)
                pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
                found[table] = Extent(stat["entries"], pages * stat["psize"])
            return found

        return self._read(read)

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Within, every read sees the commit that was the last one at the beginning, whatever is written meanwhile."""
        with self._begin() as self._pinned:
            try:
                yield
            finally:
                self._pinned = None

    def copy(self, folder: Path) -> None:
        """A compact copy of the last commit into an empty folder. Raises RunError where it cannot be written."""
        try:
            self._environment.copy(str(folder), compact=True)
        except lmdb.Error as error:
            raise RunError(f"{folder}: the store cannot be copied here ({error})") from None

    def _read(self, read: Callable[[lmdb.Transaction], Result]) -> Result:
        """One read transaction; values are copied out before it ends."""
        if self._pinned is not None:
            return read(self._pinned)
        with self._begin() as transaction:
            return read(transaction)

    def _begin(self) -> lmdb.Transaction:
        while True:
            try:
                return self._environment.begin()
            except lmdb.MapResizedError:
                # The writer, in its own process, grew the map after we opened it.
                self._environment.set_mapsize(0)


@contextmanager
def open_store(path: Path, durability: Literal["sync", "nosync"]) -> Iterator[Store]:
    """The store at `path` for its one writer, made if it is not there.

    Raises RunError where another service has it, its format is not ours, or the disk is full.
    """
    path.mkdir(parents=True, exist_ok=True)
    with lock(path / "writer.lock"):
        tables = len(get_args(Table))
        try:
            environment = lmdb.open(str(path), map_size=_map_size(path), max_dbs=tables, sync=durability == "sync")
        except lmdb.Error as error:
            raise RunError(f"{path}: the store cannot be opened ({error})") from None
        try:
            yield _prepared(environment)
            environment.sync(True)
        except lmdb.Error as error:
            raise _unwritable(str(path), error) from None
        finally:
            environment.close()


def _prepared(environment: lmdb.Environment) -> Store:
    """The store in an environment, begun if it is empty."""
    fresh = _format(environment) is None  # asked before tables are made: another format's are not ours
    store = Store(environment, create=True)
    if fresh:
        store.commit(store.encode([("meta", "format", Format(FORMAT))]))
    return store


def _unwritable(path: str, error: lmdb.Error) -> RunError:
    """LMDB calls a write of which the disk took a part an input/output error, so the space that is left is said too."""
    return RunError(
        f"{path}: the store cannot be written ({error}; {shutil.disk_usage(path).free / 1e6:,.1f} MB are free there). "
        "Nothing acknowledged is lost: free space, then the same command goes on"
    )


@contextmanager
def open_reader(path: Path) -> Iterator[Store]:
    """The store at `path` to read, whether its service is up or not. Raises RunError where there is none."""
    try:
        environment = lmdb.open(str(path), readonly=True, create=False, max_dbs=len(get_args(Table)))
    except lmdb.Error as error:
        raise RunError(f"{path}: no store can be read here ({error})") from None
    try:
        if _format(environment) is None:
            raise RunError(f"{path}: no store can be read here (nothing was ever committed)")
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
    """The store's format, None before its first commit. Raises RunError where it is not ours (none is older)."""
    try:
        meta = environment.open_db(b"meta", create=False)
    except lmdb.NotFoundError:
        return None
    with environment.begin() as transaction:
        data = transaction.get(b"format", db=meta)
    if data is None:
        return None
    found = msgspec.msgpack.decode(data, type=Format).format
    if found != FORMAT:
        raise RunError(
            f"{environment.path()}: the store has format {found}, this version of spade reads {FORMAT}; "
            "use the version that wrote it, or start a new run"
        )
    return found
