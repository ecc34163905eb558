"""An open store: one table for each kind of record, and one writer. A commit is written whole or not at all."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TypeVar, get_args

import lmdb
import msgspec

from replay.ledger.records import Change, Table
from replay.store.log import Handle, Log, count_pages
from replay.store.refusal import make_unreadable_error, make_unwritable_error
from replay.store.seal import NOT_COMMITTED, DamagedError, check_sealed, format_key, seal_records
from spade.errors import RunError

PAGE = 256  # a whole table is read by one transaction for every 256 records
LOGGED: Table = "trajectories"
LOG = "log"
NAMES: tuple[str, ...] = (*get_args(Table), LOG)

Result = TypeVar("Result")
Value = TypeVar("Value")


class TableSize(msgspec.Struct, frozen=True):
    """The size of a table."""

    records: int
    bytes: int
    """Size of the pages that the records fill, in bytes."""


class Commit(msgspec.Struct):
    """The record that each commit updates. A wrong number reveals that the last commit was lost."""

    number: int
    """LMDB's number of the commit."""


class Store:
    """An open store. Make one with `open_store` or `open_reader`."""

    def __init__(self, environment: lmdb.Environment) -> None:
        self._environment = environment
        self._tables = {name: open_table(environment, name) for name in get_args(Table)}
        self._log = Log(LOGGED, self._tables[LOGGED], open_table(environment, LOG))
        self._encoder = msgspec.msgpack.Encoder()
        self._pinned: lmdb.Transaction | None = None

    @property
    def path(self) -> str:
        """Return the store's folder."""
        return str(self._environment.path())

    def encode(self, changes: Sequence[Change]) -> list[tuple[Table, bytes, bytes | None]]:
        """Encode changes. Afterwards the records may change, even while `commit` writes the bytes in another thread."""
        return [
            (table, key.encode(), None if record is None else self._encoder.encode(record))
            for table, key, record in changes
        ]

    def commit(self, encoded: Sequence[tuple[Table, bytes, bytes | None]]) -> None:
        """Write all changes or none. Enlarges LMDB's map if it is too small.

        Raises RunError if the disk is full or fails. Earlier commits stay as they are.
        """
        by_table: dict[Table, list[tuple[bytes, bytes | None]]] = {}
        for table, key, value in encoded:
            by_table.setdefault(table, []).append((key, value))

        def write(transaction: lmdb.Transaction) -> None:
            for table, records in by_table.items():
                self._write(transaction, table, records)
            self._write(transaction, "meta", [(b"commit", self._encoder.encode(Commit(transaction.id())))])

        self._transact(write)

    def _transact(self, write: Callable[[lmdb.Transaction], None]) -> None:
        try:
            while True:
                try:
                    with self._environment.begin(write=True) as transaction:
                        write(transaction)
                    return
                except lmdb.MapFullError:
                    self._environment.set_mapsize(2 * self._environment.info()["map_size"])
        except lmdb.Error as error:
            raise make_unwritable_error(self.path, error) from None

    def _write(
        self, transaction: lmdb.Transaction, table: Table, records: Sequence[tuple[bytes, bytes | None]]
    ) -> None:
        handle = self._tables[table]
        written = [(key, value) for key, value in records if value is not None]
        written = self._log.append(transaction, written) if table == LOGGED else seal_records(table, written)
        with transaction.cursor(db=handle) as cursor:
            # Sort by key, so that records of the same page are written one after the other.
            cursor.putmulti(sorted(written))
        for key, value in records:
            if value is None and (data := transaction.pop(key, db=handle)) is not None and table == LOGGED:
                self._log.drop(transaction, key, bytes(data))

    def table_bytes(self, table: Table) -> int:
        """Return the size of a table's pages in bytes."""
        return self._read(table, lambda transaction: self._measure_extent(transaction, table)).bytes

    def _measure_extent(self, transaction: lmdb.Transaction, table: Table) -> TableSize:
        stat = transaction.stat(self._tables[table])
        count = count_pages(transaction, self._tables[table]) + (self._log.pages(transaction) if table == LOGGED else 0)
        return TableSize(stat["entries"], count * stat["psize"])

    def bodies(self, keys: Sequence[str], read: Callable[[Sequence[bytes | memoryview]], Result]) -> Result:
        """Call `read` with the encoded trajectories, in the order of `keys`, and return its result.

        Raises DamagedError if a trajectory is missing or damaged. `read` usually gets views of LMDB's pages instead of
        copies. They are valid only until `read` returns.
        """
        encoded = [key.encode() for key in keys]

        def read_all(transaction: lmdb.Transaction) -> Result | None:
            found = self._log.bodies(transaction, encoded)
            return None if found is None else read(found)

        result = self._read(LOGGED, read_all)
        return result if result is not None else read([self._body_of(key) for key in keys])

    def _body_of(self, key: str) -> bytes:
        """Return a trajectory that must exist. Raises DamagedError if it does not."""
        body = self._read(LOGGED, lambda transaction: self._get_value(transaction, LOGGED, key.encode()))
        if body is None:
            raise self._make_damaged_error(f"{LOGGED} {key}: is missing")
        return body

    def get(self, table: Table, key: str, kind: type[Value]) -> Value | None:
        """Return one record, or None. Also returns None for a key that is empty or too long for LMDB."""
        if not 0 < len(key.encode()) <= self._environment.max_key_size():
            return None
        data = self._read(table, lambda transaction: self._get_value(transaction, table, key.encode()))
        return None if data is None else self._decode_value(table, key, data, msgspec.msgpack.Decoder(kind))

    def get_many(self, table: Table, keys: Sequence[str], kind: type[Value]) -> list[Value]:
        """Return records that must exist, in the order of `keys`. Raises DamagedError if one is missing or damaged."""
        found = self._read(
            table, lambda transaction: [self._get_value(transaction, table, key.encode()) for key in keys]
        )
        decoder = msgspec.msgpack.Decoder(kind)
        values = []
        for key, data in zip(keys, found, strict=True):
            if data is None:
                raise self._make_damaged_error(f"{table} {key}: is missing")
            values.append(self._decode_value(table, key, data, decoder))
        return values

    def scan(self, table: Table, kind: type[Value], start: str = "", prefix: str = "") -> list[Value]:
        """Return the records with keys that begin with `prefix` and are at least `start`, in the order of the keys."""
        decoder = msgspec.msgpack.Decoder(kind)

        def read(transaction: lmdb.Transaction) -> list[Value]:
            found: list[Value] = []
            with transaction.cursor(db=self._tables[table]) as cursor:
                if cursor.set_range(max(start, prefix).encode()):
                    for key, value in cursor:
                        if not bytes(key).startswith(prefix.encode()):
                            break
                        body = self._get_body(transaction, table, bytes(key), bytes(value))
                        found.append(self._decode_value(table, format_key(bytes(key)), body, decoder))
            return found

        return self._read(table, read)

    def last(self, table: Table, kind: type[Value], count: int) -> Iterator[Value]:
        """Yield at most `count` records with the greatest keys, the greatest first.

        Each record is read only when the caller asks for it.
        """
        decoder = msgspec.msgpack.Decoder(kind)
        with self._open_transaction() as transaction, transaction.cursor(db=self._tables[table]) as cursor:
            for key, value in islice(cursor.iterprev(), count):
                body = self._get_body(transaction, table, bytes(key), bytes(value))
                yield self._decode_value(table, format_key(bytes(key)), body, decoder)

    def each(self, table: Table, damaged: list[str] | None = None) -> Iterator[tuple[str, bytes]]:
        """Yield each key of a table with its encoded record, in the order of the keys.

        Skips records that differ from the committed ones, and names them in `damaged`. If `damaged` is None, raises
        DamagedError instead.
        """
        for key, value in self._walk(table):
            try:
                body = self._read(table, lambda transaction, k=key, v=value: self._get_body(transaction, table, k, v))  # type: ignore[misc]
            except DamagedError as error:
                if damaged is None:
                    raise
                damaged.extend(error.what)
            else:
                yield key.decode(), body

    def decoded(self, table: Table, kind: type[Value], damaged: list[str] | None = None) -> Iterator[tuple[str, Value]]:
        """Yield each key of a table with its decoded record. Handles `damaged` like `each`."""
        decoder = msgspec.msgpack.Decoder(kind)
        for key, body in self.each(table, damaged):
            try:
                record = self._decode_value(table, key, body, decoder)
            except DamagedError as error:
                if damaged is None:
                    raise
                damaged.extend(error.what)
            else:
                yield key, record

    def miscounted(self) -> Iterator[str]:
        """Yield a line if the log's number of values differs from its number of entries."""
        entries = self.extents()[LOGGED].records
        if (bodies := self._read(LOG, self._log.entries)) != entries:
            yield f"{LOGGED}: the index has {entries} entries, the log has {bodies} values"

    def _walk(self, table: Table) -> Iterator[tuple[bytes, bytes]]:
        """Yield each key with its stored bytes: a sealed record, or an entry of the log."""
        start = b""
        while page := self._read(table, lambda transaction, start=start: self._read_page(transaction, table, start)):  # type: ignore[misc]
            yield from page
            start = page[-1][0] + b"\0"

    def _read_page(self, transaction: lmdb.Transaction, table: Table, start: bytes) -> list[tuple[bytes, bytes]]:
        with transaction.cursor(db=self._tables[table]) as cursor:
            found = islice(cursor, PAGE) if cursor.set_range(start) else ()
            return [(bytes(key), bytes(value)) for key, value in found]

    def _get_value(self, transaction: lmdb.Transaction, table: Table, key: bytes) -> bytes | None:
        value = transaction.get(key, db=self._tables[table])
        return None if value is None else self._get_body(transaction, table, key, bytes(value))

    def _get_body(self, transaction: lmdb.Transaction, table: Table, key: bytes, value: bytes) -> bytes:
        """Return a record's bytes. `value` is a sealed record, or an entry of the log.

        Raises DamagedError if the record differs from the committed one.
        """
        body = self._log.body(transaction, key, value) if table == LOGGED else check_sealed(table, key, value)
        if body is None:
            raise self._make_damaged_error(f"{table} {format_key(key)}: {NOT_COMMITTED}")
        return body

    def _decode_value(self, table: Table, key: str, body: bytes, decoder: msgspec.msgpack.Decoder[Value]) -> Value:
        try:
            return decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._make_damaged_error(f"{table} {key}: cannot be decoded ({error})") from None

    def _make_damaged_error(self, what: str) -> DamagedError:
        return DamagedError(self.path, what)

    def extents(self) -> dict[Table, TableSize]:
        """Return the size of every table."""

        def read(transaction: lmdb.Transaction) -> dict[Table, TableSize]:
            return {table: self._measure_extent(transaction, table) for table in self._tables}

        return self._read("the tables", read)

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Make every read in this block see the same commit: the last one when the block begins."""
        with begin(self._environment) as self._pinned:
            try:
                yield
            finally:
                self._pinned = None

    def copy(self, folder: Path) -> None:
        """Write a compact copy of the last commit into an empty folder. Raises RunError if it cannot be written."""
        try:
            self._environment.copy(str(folder), compact=True)
        except lmdb.Error as error:
            raise RunError(f"{folder}: the store cannot be copied here ({error})") from None

    def _read(self, what: str, read: Callable[[lmdb.Transaction], Result]) -> Result:
        """Call `read` in a transaction. `read` must copy what it returns. Raises DamagedError if LMDB cannot read.

        `what` names the table for the error.
        """
        with self._open_transaction() as transaction:
            try:
                return read(transaction)
            except lmdb.Error as error:
                raise self._make_damaged_error(f"{what}: cannot be read ({error})") from None

    @contextmanager
    def _open_transaction(self) -> Iterator[lmdb.Transaction]:
        """Yield the pinned transaction, or a new one."""
        if self._pinned is not None:
            yield self._pinned
        else:
            with begin(self._environment) as transaction:
                yield transaction


def open_table(environment: lmdb.Environment, name: str) -> Handle:
    """Return LMDB's handle of an existing table. Raises lmdb.Error."""
    return _run_with_growth(environment, lambda: environment.open_db(name.encode(), create=False))


def begin(environment: lmdb.Environment) -> lmdb.Transaction:
    """Begin a read transaction. Its values are views of LMDB's pages, valid until it ends.

    Raises RunError if LMDB fails.
    """
    path = environment.path()  # ask before: LMDB may close a damaged environment, which then has no path
    try:
        return _run_with_growth(environment, lambda: environment.begin(buffers=True))
    except lmdb.Error as error:
        raise make_unreadable_error(path, error) from None


def _run_with_growth(environment: lmdb.Environment, act: Callable[[], Result]) -> Result:
    """Return the result of `act`. If another process has enlarged LMDB's map, first enlarge the map of this process."""
    while True:
        try:
            return act()
        except lmdb.MapResizedError:
            environment.set_mapsize(0)
