"""The pages of LMDB's file, looked at without LMDB.

Every page that is in use has its place, its kind, and records that lie within it and are in order; each is used once,
by one table or by the list of free pages; there are as many as the tables say. Layout: LMDB 0.9 on 64 bits.
"""

import mmap
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

_HEADER = struct.Struct("=QHHHH")  # number, pad, kind, lower, upper
_OVERFLOW_PAGES = struct.Struct("=I")
_HEADER_BYTES = 16
_NODE = struct.Struct("=HHHH")  # size or page, its high half, flags or the page's highest part, key size
_TREE = struct.Struct("=IHHQQQQQ")
_META = struct.Struct("=IIQQ48s48sQQ")
_PLACE = struct.Struct("=Q")
_BRANCH, _LEAF, _OVERFLOW, _META_PAGE = 1, 2, 4, 8
_BIG, _SUBTREE = 1, 2
_INTEGER_KEYS = 8
_NOWHERE = 2**64 - 1
_MAGIC, _VERSION = 0xBEEFC0DE, 1
_DEEPEST = 32
_SIZES = (4_096, 8_192, 16_384, 32_768)
_LARGEST = _SIZES[-1]
_TRIES = 5


class Tree(NamedTuple):
    """A table, as the file names it."""

    pad: int
    flags: int
    depth: int
    branches: int
    leaves: int
    overflow: int
    entries: int
    root: int


class Meta(NamedTuple):
    """One of the two heads of the file: the state after a commit. `size` is that of a page, `last` the last page."""

    size: int
    commit: int
    last: int
    free: Tree
    main: Tree


class _BadPageError(Exception):
    """A page that is not what it should be."""


Named = Callable[[str], bool]


def heads(data: Path) -> list[Meta]:
    """Both heads of a file. Raises ValueError where one is damaged, OSError where it cannot be read."""
    commits: list[int] = []
    with data.open("rb") as file:
        for _ in range(_TRIES):
            file.seek(0)
            both = file.read(2 * _LARGEST)
            size = _page_size(both)
            found = [_head(both[number * size : (number + 1) * size], number) for number in (0, 1)]
            commits = [meta.commit for meta in found]
            if commits == [0, 0] or (commits[0] % 2, commits[1] % 2, abs(commits[0] - commits[1])) == (0, 1, 1):
                return found
            # A writer may have written the one and then the other while they were read.
    raise ValueError(f"its two heads are of the commits {commits[0]} and {commits[1]}, which do not follow one another")


def _page_size(begin: bytes) -> int:
    """The size of a page, as the first one says."""
    if len(begin) < _HEADER_BYTES + _META.size:
        raise ValueError(f"it has only {len(begin)} bytes")
    size = int(_TREE.unpack(_META.unpack_from(begin, _HEADER_BYTES)[4])[0])
    if size not in _SIZES:
        raise ValueError("its head 0 is damaged")
    if len(begin) < 2 * size:
        raise ValueError(f"it has only {len(begin)} bytes")
    return size


def _head(page: bytes, number: int) -> Meta:
    place, _, kind, _, _ = _HEADER.unpack_from(page)
    magic, version, _, mapped, free, main, last, commit = _META.unpack_from(page, _HEADER_BYTES)
    trees = Tree(*_TREE.unpack(free)), Tree(*_TREE.unpack(main))
    sound = (place, kind, magic, version, trees[0].pad) == (number, _META_PAGE, _MAGIC, _VERSION, len(page))
    if not sound or (last + 1) * len(page) > mapped:
        raise ValueError(f"its head {number} is damaged")
    return Meta(len(page), commit, last, *trees)


def damaged_pages(data: Path, commit: int, tables: Sequence[str], whole: Named) -> list[str] | None:
    """What is wrong with the file's state after a commit, which a transaction keeps; None where its head is gone.

    `tables` are those that must be there. Of one that is not `whole` only the way to its leaves is looked at.
    """
    meta = next((meta for meta in heads(data) if meta.commit == commit), None)
    if meta is None:
        return None
    with _mapped(data) as view:
        return list(_File(view, meta).problems(tables, whole))


@contextmanager
def _mapped(data: Path) -> Iterator[memoryview]:
    with (
        data.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
    ):
        yield view


class _File:
    """The pages of one state. `_used` marks those that have been seen."""

    def __init__(self, view: memoryview, meta: Meta) -> None:
        self._view = view
        self._meta = meta
        self._size = meta.size
        self._pages = min(meta.last + 1, len(view) // meta.size)
        self._used = bytearray(self._pages)

    def problems(self, tables: Sequence[str], whole: Named) -> Iterator[str]:
        """A line for each thing that is wrong."""
        found: dict[str, Tree] = {}
        main = _Table(self, "the list of tables", self._meta.main, lambda key, value: found.update({key: value}))
        yield from main.problems()
        for name in tables:
            if name not in found:
                yield f"{name}: the table is missing"
        for name in tables:
            if name in found:
                yield from _Table(self, name, found[name], None, leaves=whole(name)).problems()
        yield from _Table(self, "the free pages", self._meta.free, None, free=True).problems()

    def page(self, number: int) -> memoryview:
        """A page that is used for the first time. Raises _BadPageError."""
        self.take(number, 1)
        return self._view[number * self._size : (number + 1) * self._size]

    def take(self, first: int, count: int) -> None:
        """Mark pages as used. Raises _BadPageError where one is not there, or is used already."""
        if not 2 <= first <= first + count <= self._pages:
            raise _BadPageError(f"is past the end of the file, which has {len(self._view)} bytes")
        if self._used.find(1, first, first + count) >= 0:
            raise _BadPageError("is in use twice")
        self._used[first : first + count] = b"\1" * count

    def free(self, number: int) -> None:
        """Mark a page as free; one past the end of the file was never written."""
        if not 2 <= number <= self._meta.last:
            raise _BadPageError(f"names the page {number} of {self._meta.last + 1}")
        if number < self._pages:
            if self._used[number]:
                raise _BadPageError(f"names the page {number}, which is in use")
            self._used[number] = 1

    @property
    def size(self) -> int:
        """Of a page, in bytes."""
        return self._size

    def bytes(self, first: int, count: int) -> memoryview:
        """The bytes of pages."""
        return self._view[first * self._size : (first + count) * self._size]


class _Table:
    """One tree of pages. `names` is told the trees that its leaves name."""

    def __init__(
        self,
        file: _File,
        name: str,
        tree: Tree,
        names: Callable[[str, Tree], None] | None,
        leaves: bool = True,
        free: bool = False,
    ) -> None:
        self._file = file
        self._name = name
        self._tree = tree
        self._names = names
        self._leaves = leaves
        self._free = free
        self._counts = {"branches": 0, "leaves": 0, "overflow": 0, "entries": 0}
        self._problems: list[str] = []

    def problems(self) -> list[str]:
        """A line for each page that is wrong."""
        tree = self._tree
        if tree.flags != (_INTEGER_KEYS if self._free else 0) or tree.depth > _DEEPEST:
            return [f"{self._name}: its root is damaged"]
        if tree.root != _NOWHERE:
            self._look(tree.root, tree.depth, None, None)
        if not self._problems:
            names = self._counts if self._leaves else ("branches", "leaves")
            for name in names:
                if self._counts[name] != getattr(tree, name):
                    what = "records" if name == "entries" else f"pages ({name})"
                    self._problems.append(f"{self._name}: has {self._counts[name]} {what}, not {getattr(tree, name)}")
        return self._problems

    def _look(self, number: int, depth: int, low: bytes | None, high: bytes | None) -> None:
        """A page and all under it; its keys are from `low` to under `high`."""
        try:
            if depth == 1 and not self._leaves:
                self._counts["leaves"] += 1
                return self._file.take(number, 1)
            self._page(number, depth, low, high)
        except _BadPageError as bad:
            begin = f", from {low.decode(errors='backslashreplace')} on," if low and not self._free else ""
            self._problems.append(f"{self._name}: page {number}{begin} {bad}")

    def _page(self, number: int, depth: int, low: bytes | None, high: bytes | None) -> None:
        page = self._file.page(number)
        place, _, kind, lower, upper = _HEADER.unpack_from(page)
        if (place, kind) != (number, _LEAF if depth == 1 else _BRANCH) or depth < 1:
            raise _BadPageError("is not the page that belongs here")
        if not _HEADER_BYTES < lower <= upper <= len(page) or lower % 2:
            raise _BadPageError("has a damaged head")
        places = struct.unpack_from(f"={(lower - _HEADER_BYTES) // 2}H", page, _HEADER_BYTES)
        keys, taken = [], 0
        below = []
        for at in places:
            if at % 2 or not upper <= at <= len(page) - _NODE.size:
                raise _BadPageError("names a record outside of it")
            low_half, high_half, flags, length = _NODE.unpack_from(page, at)
            begin = at + _NODE.size
            value = low_half | high_half << 16
            if depth > 1:
                size = 0
                below.append(value | flags << 32)
            else:
                if flags != (_BIG if flags & _BIG else 0 if self._names is None else _SUBTREE):
                    raise _BadPageError("has a record of a damaged kind")
                size = _PLACE.size if flags & _BIG else value
            end = begin + length + size
            if end > len(page):
                raise _BadPageError("has a record that does not end in it")
            taken += (end - at) + (end - at) % 2
            key = bytes(page[begin : begin + length])
            keys.append(key)
            if depth == 1:
                self._record(key, value, bool(flags), page[begin + length : end])
        if taken != len(page) - upper:
            raise _BadPageError("has records that overlap, or a gap between them")
        self._check_order(keys, depth, low, high)
        if depth == 1:
            self._counts["leaves"] += 1
            self._counts["entries"] += len(keys)
            return
        self._counts["branches"] += 1
        for child, begin_key, end_key in zip(below, [low, *keys[1:]], [*keys[1:], high], strict=True):
            self._look(child, depth - 1, begin_key, end_key)

    def _check_order(self, keys: list[bytes], depth: int, low: bytes | None, high: bytes | None) -> None:
        """The first key of a branch says nothing."""
        said = keys if depth == 1 else keys[1:]
        if self._free:
            numbers = [_PLACE.unpack(key)[0] if len(key) == _PLACE.size else _NOWHERE for key in said]
            sound = all(a < b for a, b in pairwise(numbers)) and _NOWHERE not in numbers
        else:
            ordered = [*([low] if low is not None else []), *said]
            strict = all(a < b for a, b in pairwise(said))
            sound = strict and ordered == sorted(ordered) and (high is None or not said or said[-1] < high)
        if not sound:
            raise _BadPageError("has keys that are out of order")

    def _record(self, key: bytes, size: int, marked: bool, data: memoryview) -> None:
        """What a record of a leaf leads to: overflow pages, a tree, free pages."""
        if self._names is not None:
            if len(data) != _TREE.size:
                raise _BadPageError("has a table of a damaged kind")
            self._names(key.decode(errors="backslashreplace"), Tree(*_TREE.unpack(data)))
            return
        if marked:
            data = self._overflow(_PLACE.unpack(data)[0], size)
        if self._free:
            numbers = struct.unpack(f"={len(data) // 8}Q", data[: len(data) // 8 * 8])
            if not numbers or len(numbers) - 1 < numbers[0]:
                raise _BadPageError("has a damaged list of pages")
            for number in numbers[1 : 1 + numbers[0]]:
                self._file.free(number)

    def _overflow(self, number: int, size: int) -> memoryview:
        """The value of `size` bytes that begins at a page of its own."""
        count = (_HEADER_BYTES + size - 1) // self._file.size + 1
        self._file.take(number, count)
        pages = self._file.bytes(number, count)
        place, _, kind, _, _ = _HEADER.unpack_from(pages)
        if (place, kind, _OVERFLOW_PAGES.unpack_from(pages, 12)[0]) != (number, _OVERFLOW, count):
            raise _BadPageError(f"has a record in the damaged page {number}")
        self._counts["overflow"] += count
        return pages[_HEADER_BYTES : _HEADER_BYTES + size]
