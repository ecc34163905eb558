"""Read the two heads (meta pages) of LMDB's file without LMDB. Each head describes the file after one commit.

Layout: LMDB 0.9 on 64 bits.
"""

import struct
from pathlib import Path
from typing import NamedTuple

PAGE = struct.Struct("=QHHHH")  # a page's number, pad, kind, and where its free space begins and ends
TREE = struct.Struct("=IHHQQQQQ")
HEADER_BYTES = 16
_META = struct.Struct("=IIQQ48s48sQQ")
_META_PAGE = 8
_MAGIC, _VERSION = 0xBEEFC0DE, 1
_SIZES = (4_096, 8_192, 16_384, 32_768)
_LARGEST = _SIZES[-1]
_TRIES = 5


class Tree(NamedTuple):
    """The description of a table's tree of pages (`MDB_db` in LMDB)."""

    pad: int
    flags: int
    depth: int
    branches: int
    """Number of branch pages."""
    leaves: int
    """Number of leaf pages."""
    overflow: int
    """Number of overflow pages."""
    entries: int
    """Number of records."""
    root: int
    """Number of the root page."""


class Meta(NamedTuple):
    """One of the two heads of the file: its state after a commit (`MDB_meta` in LMDB)."""

    size: int
    """Bytes of a page."""
    commit: int
    last: int
    """Number of the last page."""
    free: Tree
    """Tree of the lists of free pages."""
    main: Tree
    """Tree of the table that lists all tables."""


def read_heads(data: Path) -> list[Meta]:
    """Return both heads of a file. Raises ValueError if one is damaged, OSError if the file cannot be read."""
    for _ in range(_TRIES - 1):
        try:
            return _try_read_heads(data)
        except ValueError:
            pass  # read again, because a writer may have changed the heads while they were read
    return _try_read_heads(data)


def _try_read_heads(data: Path) -> list[Meta]:
    with data.open("rb") as file:
        begin = file.read(2 * _LARGEST)
    size = _read_page_size(begin)
    found = [_read_head(begin[number * size : (number + 1) * size], number) for number in (0, 1)]
    first, second = (meta.commit for meta in found)
    # Head 0 has the even commits, head 1 the odd ones.
    if (first, second) != (0, 0) and (first % 2, second % 2, abs(first - second)) != (0, 1, 1):
        raise ValueError(f"its heads are of the commits {first} and {second}, which do not follow one another")
    return found


def _read_page_size(begin: bytes) -> int:
    """Return the size of a page in bytes, as the first head states it."""
    if len(begin) < HEADER_BYTES + _META.size:
        raise ValueError(f"it has only {len(begin)} bytes")
    size = int(TREE.unpack(_META.unpack_from(begin, HEADER_BYTES)[4])[0])
    if size not in _SIZES:
        raise ValueError("its head 0 is damaged")
    if len(begin) < 2 * size:
        raise ValueError(f"it has only {len(begin)} bytes")
    return size


def _read_head(page: bytes, number: int) -> Meta:
    place, _, kind, _, _ = PAGE.unpack_from(page)
    magic, version, _, mapped, free, main, last, commit = _META.unpack_from(page, HEADER_BYTES)
    trees = Tree(*TREE.unpack(free)), Tree(*TREE.unpack(main))
    sound = (place, kind, magic, version, trees[0].pad) == (number, _META_PAGE, _MAGIC, _VERSION, len(page))
    if not sound or (last + 1) * len(page) > mapped:
        raise ValueError(f"its head {number} is damaged")
    return Meta(len(page), commit, last, *trees)
