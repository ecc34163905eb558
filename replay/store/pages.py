"""Checks of the pages of LMDB's file, without LMDB.

* Every used page states its own number and the right kind, and its records lie within the page in order.
* Each page is used at most once: by one table, or by the lists of free pages.
* The page and record counts that each table states are true.

Layout: LMDB 0.9 on 64 bits.
"""

import mmap
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from replay.store.heads import HEADER_BYTES, PAGE, TREE, Meta, Tree, read_heads
from replay.store.seal import format_key

_RECORD = struct.Struct("=HHHH")
"""The header of a record, four numbers:

1. low half of the value's size; in a branch, the low part of a page number
2. high half of this size; in a branch, the middle part of the page number
3. kind of the record; in a branch, the high part of the page number
4. size of the key
"""
_OVERFLOW_PAGES = struct.Struct("=I")
_NUMBER = struct.Struct("=Q")
_BRANCH, _LEAF, _OVERFLOW = 1, 2, 4
_PLAIN, _BIG, _TABLE = 0, 1, 2  # kinds of records
_INTEGER_KEYS = 8
_NOWHERE = 2**64 - 1
_DEEPEST = 32


class _BadPageError(Exception):
    """A page is damaged. The error's text completes a sentence that begins with "page 12"."""


class _Record(NamedTuple):
    """A record in a page."""

    key: bytes
    number: int
    """In a branch, the number of the page below. In a leaf, the size of the value in bytes."""
    kind: int
    data: memoryview


def find_damaged_pages(
    data: Path, commit: int, tables: Sequence[str], whole: Callable[[str], bool]
) -> list[str] | None:
    """Return the faults in the file's state after a commit, or None if no head has this commit any more.

    An open transaction must keep the pages of this commit. If one of `tables` is missing, this is a fault. Checks a
    table's pages only if `whole(name)` is true. Raises ValueError if a head is damaged.
    """
    meta = next((meta for meta in read_heads(data) if meta.commit == commit), None)
    if meta is None:
        return None
    with _map_file(data) as view:
        return list(_find_problems(_File(view, meta), meta, tables, whole))


@contextmanager
def _map_file(data: Path) -> Iterator[memoryview]:
    with (
        data.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
    ):
        yield view


def _find_problems(file: "_File", meta: Meta, tables: Sequence[str], whole: Callable[[str], bool]) -> Iterator[str]:
    names = _Names("the list of tables", file, meta.main)
    yield from names.problems()
    for name in tables:
        if name not in names.found:
            yield f"{name}: the table is missing"
        elif whole(name):
            yield from _Table(name, file, names.found[name]).problems()
    yield from _Free("the free pages", file, meta.free).problems()


class _File:
    """The pages of the file after one commit. `_seen` marks the pages that were found so far, used or free."""

    def __init__(self, view: memoryview, meta: Meta) -> None:
        self._view = view
        self._last = meta.last
        self.size = meta.size
        self._seen = bytearray(min(meta.last + 1, len(view) // meta.size))

    def take(self, first: int, count: int = 1) -> memoryview:
        """Mark pages as used, and return their bytes. Raises _BadPageError if one is already marked."""
        if not 2 <= first <= first + count <= len(self._seen):
            raise _BadPageError(f"is past the end of the file, which has {len(self._view)} bytes")
        if self._seen.find(1, first, first + count) >= 0:
            raise _BadPageError("is in use twice")
        self._seen[first : first + count] = b"\1" * count
        return self._view[first * self.size : (first + count) * self.size]

    def free(self, number: int) -> None:
        """Mark a page as free. Raises _BadPageError if it is already marked.

        A free page may lie past the end of the file, because it was never written.
        """
        if not 2 <= number <= self._last:
            raise _BadPageError(f"names the page {number} of {self._last + 1}")
        if number < len(self._seen):
            if self._seen[number]:
                raise _BadPageError(f"names the page {number}, which is in use")
            self._seen[number] = 1


class _Table:
    """A table's tree of pages."""

    flags = 0
    kinds: tuple[int, ...] = (_PLAIN, _BIG)

    def __init__(self, name: str, file: _File, tree: Tree) -> None:
        self._name = name
        self._file = file
        self._tree = tree
        self._counts = Counter[str]()
        self._found: list[str] = []

    def problems(self) -> list[str]:
        """Check the table. Returns one line for each damaged page or wrong count."""
        tree = self._tree
        if tree.flags != self.flags or tree.depth > _DEEPEST:
            return [f"{self._name}: its root is damaged"]
        if tree.root != _NOWHERE:
            self._look(tree.root, tree.depth, None, None)
        if self._found:
            return self._found
        names = ("branches", "leaves", "overflow", "entries")
        stated = {name: getattr(tree, name) for name in names}
        return [
            f"{self._name}: has {self._counts[n]} {n}, not {stated[n]}" for n in names if self._counts[n] != stated[n]
        ]

    def record(self, record: _Record, value: memoryview) -> None:
        """Check a record of a leaf. Subclasses raise _BadPageError."""

    def in_order(self, keys: list[bytes], low: bytes | None, high: bytes | None) -> bool:
        """Return True if the keys of a page are in rising order, at least `low` and less than `high`."""
        rising = all(a < b for a, b in pairwise(keys))
        return rising and (not keys or ((low is None or low <= keys[0]) and (high is None or keys[-1] < high)))

    def _look(self, number: int, depth: int, low: bytes | None, high: bytes | None) -> None:
        """Check a page and all pages below it. Their keys must be at least `low` and less than `high`."""
        try:
            page = self._file.take(number)
            records = list(self._records(number, page, _LEAF if depth == 1 else _BRANCH))
            # Skip the first key of a branch page, because LMDB ignores it.
            if not self.in_order([one.key for one in (records if depth == 1 else records[1:])], low, high):
                raise _BadPageError("has keys that are out of order")
            if depth == 1:
                self._leaf(records)
        except _BadPageError as bad:
            begin = f", from {format_key(low)} on," if low and not self.flags else ""
            self._found.append(f"{self._name}: page {number}{begin} {bad}")
            return
        if depth > 1:
            self._counts["branches"] += 1
            bounds = [low, *(one.key for one in records[1:]), high]
            for one, (begins, ends) in zip(records, pairwise(bounds), strict=True):
                self._look(one.number, depth - 1, begins, ends)

    def _records(self, number: int, page: memoryview, kind: int) -> Iterator[_Record]:
        """Yield the records of a page, which must have the given kind.

        Raises _BadPageError if the records do not exactly fill the bytes that the page states as used.
        """
        found, _, found_kind, lower, upper = PAGE.unpack_from(page)
        if (found, found_kind) != (number, kind):
            raise _BadPageError("is not the page that belongs here")
        if not HEADER_BYTES < lower <= upper <= len(page) or lower % 2:
            raise _BadPageError("has a damaged head")
        taken = 0
        for at in struct.unpack_from(f"={(lower - HEADER_BYTES) // 2}H", page, HEADER_BYTES):
            if at % 2 or not upper <= at <= len(page) - _RECORD.size:
                raise _BadPageError("names a record outside of it")
            low, high, flags, length = _RECORD.unpack_from(page, at)
            size = low | high << 16
            begin = at + _RECORD.size + length
            end = begin + (0 if kind == _BRANCH else _NUMBER.size if flags & _BIG else size)
            if end > len(page):
                raise _BadPageError("has a record that does not end in it")
            taken += end - at + (end - at) % 2
            key = bytes(page[at + _RECORD.size : begin])
            yield (
                _Record(key, size | flags << 32, 0, page[:0])
                if kind == _BRANCH
                else _Record(key, size, flags, page[begin:end])
            )
        if taken != len(page) - upper:
            raise _BadPageError("has records that overlap, or a gap between them")

    def _leaf(self, records: list[_Record]) -> None:
        self._counts["leaves"] += 1
        self._counts["entries"] += len(records)
        for one in records:
            if one.kind not in self.kinds:
                raise _BadPageError("has a record of a damaged kind")
            self.record(one, self._overflow(one) if one.kind == _BIG else one.data)

    def _overflow(self, record: _Record) -> memoryview:
        """Return the value of a record that is too large for its page and has overflow pages."""
        (number,) = _NUMBER.unpack(record.data)
        count = (HEADER_BYTES + record.number - 1) // self._file.size + 1
        pages = self._file.take(number, count)
        found, _, kind, _, _ = PAGE.unpack_from(pages)
        if (found, kind, _OVERFLOW_PAGES.unpack_from(pages, 12)[0]) != (number, _OVERFLOW, count):
            raise _BadPageError(f"has a record in the damaged page {number}")
        self._counts["overflow"] += count
        return pages[HEADER_BYTES : HEADER_BYTES + record.number]


class _Names(_Table):
    """The table that lists all tables. `found` has their trees by name."""

    kinds = (_TABLE,)

    def __init__(self, name: str, file: _File, tree: Tree) -> None:
        super().__init__(name, file, tree)
        self.found: dict[str, Tree] = {}

    def record(self, record: _Record, value: memoryview) -> None:
        if len(value) != TREE.size:
            raise _BadPageError("has a table of a damaged kind")
        self.found[format_key(record.key)] = Tree(*TREE.unpack(value))


class _Free(_Table):
    """The lists of free pages, by the commit that freed them."""

    flags = _INTEGER_KEYS

    def in_order(self, keys: list[bytes], low: bytes | None, high: bytes | None) -> bool:
        if any(len(key) != _NUMBER.size for key in keys):
            return False
        return all(a < b for a, b in pairwise(_NUMBER.unpack(key)[0] for key in keys))

    def record(self, record: _Record, value: memoryview) -> None:
        numbers = struct.unpack_from(f"={len(value) // _NUMBER.size}Q", value)
        if not numbers or numbers[0] >= len(numbers):
            raise _BadPageError("has a damaged list of pages")
        for number in numbers[1 : 1 + numbers[0]]:
            self._file.free(number)
