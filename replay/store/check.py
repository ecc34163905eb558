"""Check a store before it is read: its heads (meta pages), its format, its pages, and that no commit was lost.

LMDB does not check its pages. A damaged page can kill the process that reads it.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import lmdb
import msgspec

from replay.store.heads import read_heads
from replay.store.pages import find_damaged_pages
from replay.store.refusal import make_unreadable_error
from replay.store.seal import NOT_COMMITTED, DamagedError, check_sealed
from replay.store.store import LOG, NAMES, Commit, begin, open_table
from spade.disk import refuse_irregular
from spade.errors import RunError

FORMAT = 3
_COPIED = 1  # a compact copy has one commit, which gets this number from LMDB
_TRIES = 5
_FILES = ("data.mdb", "lock.mdb", "writer.lock")

# In a larger file, the tables that grow with every play would take too long to check before a start.
_QUICKLY_BYTES = 64 * 1024 * 1024
_LARGE = frozenset({"plays", "trajectories", LOG})


class Format(msgspec.Struct):
    """The first record of every store."""

    format: int


def refuse_irregular_files(path: Path) -> None:
    """Raise RunError if a file of the store is a link, or not a regular file.

    Even a reader writes LMDB's lock file. If this file is a link, the reader damages the file behind it.
    """
    for name in _FILES:
        refuse_irregular(path / name)


def check_heads(path: Path) -> None:
    """Check the heads before LMDB opens the file. Raises DamagedError, or RunError if the file cannot be read."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise RunError(f"{path}: the path is not UTF-8 text, which LMDB needs; rename it") from None
    refuse_irregular_files(path)
    data = path / "data.mdb"
    try:
        if data.exists() and data.stat().st_size:
            read_heads(data)
    except ValueError as error:
        raise DamagedError(str(path), f"{data.name}: {error}") from None
    except OSError as error:
        raise make_unreadable_error(str(path), error) from None


def is_short(data: Path) -> bool:
    """Return True if LMDB's file lacks pages at its end, or if its heads cannot be read.

    A file that lacks only free pages is sound, because LMDB does not write free pages at the end. If a transaction
    reads any other missing page, SIGBUS kills the process.
    """
    try:
        newest = max(read_heads(data), key=lambda meta: meta.commit)
        return data.stat().st_size < (newest.last + 1) * newest.size
    except (ValueError, OSError):
        return True


def check_all(environment: lmdb.Environment) -> None:
    """Check every page. Raises RunError if the store has another format, and DamagedError if a page is damaged."""
    _check(environment, lambda _: True)


def check_quickly(environment: lmdb.Environment) -> None:
    """Check every page. In a large file, skip the tables that grow with every play. Raises like `check_all`."""
    size = (Path(environment.path()) / "data.mdb").stat().st_size
    _check(environment, lambda table: size <= _QUICKLY_BYTES or table not in _LARGE)


def _check(environment: lmdb.Environment, whole: Callable[[str], bool]) -> None:
    # Check the table "meta" first. It has the format, and another format may have other tables.
    _check_pages(environment, ("meta",), whole)
    meta = open_table(environment, "meta")
    with begin(environment) as transaction:
        number = transaction.id()
        form, commit = (bytes(transaction.get(key, db=meta) or b"") for key in (b"format", b"commit"))
    path = environment.path()
    _check_format(path, form)
    _check_pages(environment, NAMES, whole)
    recorded = check_sealed("meta", b"commit", commit)
    if recorded is None:
        raise DamagedError(path, f"meta commit: {NOT_COMMITTED}")
    if number not in (_COPIED, msgspec.msgpack.decode(recorded, type=Commit).number):
        raise DamagedError(path, "meta commit: this is not the state of the last commit")


def _check_format(path: str, record: bytes) -> None:
    if not record:
        raise DamagedError(path, "meta format: is missing")
    sound = check_sealed("meta", b"format", record)
    try:  # older formats had no checksum
        found = msgspec.msgpack.decode(record if sound is None else sound, type=Format).format
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise DamagedError(path, f"meta format: {NOT_COMMITTED}") from None
    if found != FORMAT:
        raise RunError(
            f"{path}: the store has format {found}, this version of spade reads {FORMAT}; "
            "use the version that wrote it, or start a new run"
        )


def _check_pages(environment: lmdb.Environment, tables: Sequence[str], whole: Callable[[str], bool]) -> None:
    data = Path(environment.path()) / "data.mdb"
    short = is_short(data)  # LMDB does not write free pages at the end. The check below finds other missing pages.
    for _ in range(_TRIES):
        with begin(environment) as transaction:  # a read transaction keeps the pages of its commit as they are
            try:
                damaged = find_damaged_pages(data, transaction.id(), tables, lambda name: short or whole(name))
            except ValueError as error:
                damaged = [f"{data.name}: {error}"]
        if damaged:
            raise DamagedError(environment.path(), *damaged)
        if damaged is not None:
            return
    raise RunError(f"{environment.path()}: is written to so often that it cannot be checked; try again")
