"""The one durable store of a run, on LMDB: a table for each kind of record, one writer, a commit whole or not at all.

An acknowledgement means that `commit` returned. With durability "sync" that survives the machine's death, with
"nosync" the process's. Readers in other processes see the last commit, while the service is up or not.
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar, get_args

import lmdb
import msgspec

from replay.state import Change, Table
from spade.errors import RunError

FORMAT = 1
FIRST_MAP_BYTES = 64 * 1024 * 1024

Result = TypeVar("Result")
Value = TypeVar("Value")


class Format(msgspec.Struct):
    """The first record of every store."""

    format: int


class Store:
    """An open store. `open_store` and `open_reader` make one."""

    def __init__(self, environment: lmdb.Environment, create: bool) -> None:
        self._environment = environment
        self._tables = {table: environment.open_db(table.encode(), create=create) for table in get_args(Table)}
        self._encoder = msgspec.msgpack.Encoder()

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
        """Write everything, or nothing and raise; the map grows where it is too small."""
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

    def get(self, table: Table, key: str, kind: type[Value]) -> Value | None:
        """One record, None where there is none."""
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

    def _read(self, read: Callable[[lmdb.Transaction], Result]) -> Result:
        """One read transaction; values are copied out before it ends."""
        while True:
            try:
                with self._environment.begin() as transaction:
                    return read(transaction)
            except lmdb.MapResizedError:
                # The writer, in its own process, grew the map after we opened it.
                self._environment.set_mapsize(0)


@contextmanager
def open_store(path: Path, durability: Literal["sync", "nosync"]) -> Iterator[Store]:
    """The store at `path` for its one writer, made if it is not there.

    Raises RunError where another service has it, or its format is not ours.
    """
    path.mkdir(parents=True, exist_ok=True)
    with _lock(path / "writer.lock"):
        tables = len(get_args(Table))
        try:
            environment = lmdb.open(str(path), map_size=_map_size(path), max_dbs=tables, sync=durability == "sync")
        except lmdb.Error as error:
            raise RunError(f"{path}: the store cannot be opened ({error})") from None
        try:
            store = Store(environment, create=True)
            if store.get("meta", "format", Format) is None:
                store.commit(store.encode([("meta", "format", Format(FORMAT))]))
            _check_format(store)
            yield store
            environment.sync(True)
        finally:
            environment.close()


@contextmanager
def open_reader(path: Path) -> Iterator[Store]:
    """The store at `path` to read, whether its service is up or not. Raises RunError where there is none."""
    try:
        environment = lmdb.open(str(path), readonly=True, create=False, max_dbs=len(get_args(Table)))
    except lmdb.Error as error:
        raise RunError(f"{path}: no store can be read here ({error})") from None
    try:
        store = Store(environment, create=False)
        _check_format(store)
        yield store
    finally:
        environment.close()


@contextmanager
def _lock(path: Path) -> Iterator[None]:
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


def _check_format(store: Store) -> None:
    found = store.get("meta", "format", Format)
    if found is None or found.format != FORMAT:
        has = "none" if found is None else found.format
        raise RunError(
            f"{store.path}: the store has format {has}, this version of spade reads {FORMAT}; "
            "use the version that wrote it, or start a new run"
        )
