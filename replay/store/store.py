"""An open store: a table for each kind of record, one writer, a commit whole or not at all."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TypeVar, get_args

import lmdb
import msgspec

from replay.state import Change, Table
from replay.store.log import Log, pages
from spade.errors import RunError

PAGE = 256  # records of one read while a table is walked
LOGGED: Table = "trajectories"
TABLES = len(get_args(Table)) + 1  # and the log

Result = TypeVar("Result")
Value = TypeVar("Value")


class Extent(msgspec.Struct, frozen=True):
    """A table's records, and the bytes of the pages they fill."""

    records: int
    bytes: int


class Store:
    """An open store. `open_store` and `open_reader` make one."""

    def __init__(self, environment: lmdb.Environment, create: bool) -> None:
        self._environment = environment
        self._tables = {table: environment.open_db(table.encode(), create=create) for table in get_args(Table)}
        self._log = Log(self._tables[LOGGED], environment.open_db(b"log", create=create))
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
        by_table: dict[Table, list[tuple[bytes, bytes | None]]] = {}
        for table, key, value in encoded:
            by_table.setdefault(table, []).append((key, value))

        def write(transaction: lmdb.Transaction) -> None:
            for table, records in by_table.items():
                self._write(transaction, table, records)

        self._transact(write)

    def move_to_log(self, convert: Callable[[bytes], bytes], last: Change) -> None:
        """Trajectories of a format that kept them in their own table, `convert`ed; with `last` in the same commit."""

        def move(transaction: lmdb.Transaction) -> None:
            start = b""
            while page := self._page(transaction, LOGGED, start):
                start = page[-1][0] + b"\0"
                for key, _ in page:
                    transaction.delete(key, db=self._tables[LOGGED])
                self._write(transaction, LOGGED, [(key, convert(data)) for key, data in page])
            for table, key, value in self.encode([last]):
                self._write(transaction, table, [(key, value)])

        self._transact(move)

    def _transact(self, write: Callable[[lmdb.Transaction], None]) -> None:
        while True:
            try:
                with self._environment.begin(write=True) as transaction:
                    write(transaction)
                return
            except lmdb.MapFullError:
                self._environment.set_mapsize(2 * self._environment.info()["map_size"])
            except lmdb.Error as error:
                raise unwritable(self.path, error) from None

    def _write(
        self, transaction: lmdb.Transaction, table: Table, records: Sequence[tuple[bytes, bytes | None]]
    ) -> None:
        handle = self._tables[table]
        written = [(key, value) for key, value in records if value is not None]
        if table == LOGGED:
            written = self._log.append(transaction, written)
        with transaction.cursor(db=handle) as cursor:
            # In the order of the keys, so that neighbours come to their page one after the other.
            cursor.putmulti(sorted(written))
        for key, value in records:
            if value is None and (data := transaction.pop(key, db=handle)) is not None and table == LOGGED:
                self._log.drop(transaction, bytes(data))

    def table_bytes(self, table: Table) -> int:
        """What a table takes, in whole pages."""
        return self._read(lambda transaction: self._extent(transaction, table)).bytes

    def _extent(self, transaction: lmdb.Transaction, table: Table) -> Extent:
        stat = transaction.stat(self._tables[table])
        count = pages(transaction, self._tables[table]) + (self._log.pages(transaction) if table == LOGGED else 0)
        return Extent(stat["entries"], count * stat["psize"])

    def bodies(self, keys: Sequence[str]) -> list[bytes]:
        """Trajectories as they were encoded, in the order of `keys`. Raises RunError where one is not there."""
        encoded = [key.encode() for key in keys]
        found = self._read(lambda transaction: self._log.bodies(transaction, encoded))
        if len(found) < len(keys):
            raise self._damaged(f"{len(keys) - len(found)} of {len(keys)} {LOGGED} are missing")
        return found

    def broken(self) -> Iterator[str]:
        """What is wrong with the bytes of trajectories, a line each."""
        entries = 0
        for key, entry in self._walk(LOGGED):
            entries += 1
            if not self._read(lambda transaction, entry=entry: self._log.whole(transaction, entry)):  # type: ignore[misc]
                yield f"{LOGGED} {key}: its bytes are not those that were committed (CRC-32)"
        if (bodies := self._read(self._log.entries)) != entries:
            yield f"{LOGGED}: {entries} are named, the log holds {bodies}"

    def get(self, table: Table, key: str, kind: type[Value]) -> Value | None:
        """One record, None where there is none; also for a key that no record can have."""
        if not 0 < len(key.encode()) <= self._environment.max_key_size():
            return None
        data = self._read(lambda transaction: self._value(transaction, table, key.encode()))
        return None if data is None else msgspec.msgpack.decode(data, type=kind)

    def get_many(self, table: Table, keys: Sequence[str], kind: type[Value]) -> list[Value]:
        """Records that must be there, in the order of `keys`. Raises RunError where one is not."""
        found = self._read(lambda transaction: [self._value(transaction, table, key.encode()) for key in keys])
        decoder = msgspec.msgpack.Decoder(kind)
        values = []
        for key, data in zip(keys, found, strict=True):
            if data is None:
                raise self._damaged(f"{table} {key} is missing")
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
                        found.append(decoder.decode(self._body(transaction, table, bytes(data))))
            return found

        return self._read(read)

    def each(self, table: Table) -> Iterator[tuple[str, bytes]]:
        """All keys of a table with their encoded records, in order, however many; read a page at a time."""
        for key, data in self._walk(table):
            yield key, self._read(lambda transaction, data=data: self._body(transaction, table, data))  # type: ignore[misc]

    def _walk(self, table: Table) -> Iterator[tuple[str, bytes]]:
        """Keys with what the table itself holds."""
        start = b""
        while page := self._read(lambda transaction, start=start: self._page(transaction, table, start)):  # type: ignore[misc]
            yield from ((key.decode(), data) for key, data in page)
            start = page[-1][0] + b"\0"

    def _page(self, transaction: lmdb.Transaction, table: Table, start: bytes) -> list[tuple[bytes, bytes]]:
        with transaction.cursor(db=self._tables[table]) as cursor:
            found = islice(cursor, PAGE) if cursor.set_range(start) else ()
            return [(bytes(key), bytes(data)) for key, data in found]

    def _value(self, transaction: lmdb.Transaction, table: Table, key: bytes) -> bytes | None:
        data = transaction.get(key, db=self._tables[table])
        return None if data is None else self._body(transaction, table, bytes(data))

    def _body(self, transaction: lmdb.Transaction, table: Table, data: bytes) -> bytes:
        """A record's bytes, of what its table holds."""
        return self._log.body(transaction, data) if table == LOGGED else data

    def _damaged(self, what: str) -> RunError:
        return RunError(f"{self.path}: {what}; the store is damaged, restore it from a copy")

    def extents(self) -> dict[Table, Extent]:
        """The size of every table."""

        def read(transaction: lmdb.Transaction) -> dict[Table, Extent]:
            return {table: self._extent(transaction, table) for table in self._tables}

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


def unwritable(path: str, error: lmdb.Error) -> RunError:
    """LMDB calls a write of which the disk took a part an input/output error, so the space that is left is said too."""
    return RunError(
        f"{path}: the store cannot be written ({error}; {shutil.disk_usage(path).free / 1e6:,.1f} MB are free there). "
        "Nothing acknowledged is lost: free space, then the same command goes on"
    )
