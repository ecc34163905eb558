"""A pool on disk: a folder of programs. All but NAME.py may be missing.

NAME.py     the program
NAME.hint   its hint
NAME.json   its record: the digests of both, its skill, its origin

Others wrote these files: each is read within bounds, and whatever is wrong with one is one line that names it.
"""

import os
import re
from hashlib import sha256
from pathlib import Path

import msgspec

from spade.codec import program_digest
from spade.config import Skill
from spade.decoding import UnreadableError, decoded
from spade.disk import read, refuse_outside, replace
from spade.errors import RunError, reason
from spade.protocol import MOST_HINT
from spade.text import line

POOL = "pool"  # the folder of a run's directory that has its pool
MOST_PROGRAMS = 65_536
MOST_FILES = 4 * MOST_PROGRAMS  # of a folder, whatever they are
PROGRAM_BYTES, RECORD_BYTES = 1 << 20, 1 << 16
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


class ProgramRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A program's record. `program` and `hint` are digests ("" without a hint), `skill` None where it has none.

    `levels`: it is of a library, and has a line that sets its level.
    """

    program: str
    hint: str = ""
    skill: Skill | None = None
    origin: str = ""
    levels: bool = False


class PoolProgram(msgspec.Struct, frozen=True):
    """A program of a pool. `hint` is "" where it has none; `origin` says where it comes from, in words.

    `levels` as in its record.
    """

    name: str
    source: str
    hint: str = ""
    skill: Skill | None = None
    origin: str = ""
    levels: bool = False


class SeedPool(msgspec.Struct, frozen=True, array_like=True):
    """The programs that designers of a run vary from the start, which the run keeps."""

    programs: tuple[PoolProgram, ...] = ()


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A program in the list of a pool. `program` and `hint` are digests, `skill` is "" where it has none.

    `levels` as in its record.
    """

    name: str
    program: str
    hint: str = ""
    skill: str = ""
    levels: bool = False


class PoolList(msgspec.Struct, frozen=True, array_like=True):
    """The programs of a pool, by name."""

    entries: tuple[Entry, ...]

    @property
    def digest(self) -> str:
        """A name that no other list has: of what is played, not of origins."""
        return sha256(msgspec.msgpack.encode(self.entries)).hexdigest()[:32]

    def difference(self, other: "PoolList") -> str:
        """The first program that is not the same in `other`; "" if there is none."""
        ours, theirs = ({entry.name: entry for entry in pool.entries} for pool in (self, other))
        for name in sorted(ours.keys() | theirs.keys()):
            if name not in theirs:
                return f"{name} is missing"
            if name not in ours:
                return f"{name} is new"
            if ours[name] != theirs[name]:
                return f"{name} was changed"
        return ""


_records: msgspec.json.Decoder[ProgramRecord] = msgspec.json.Decoder(ProgramRecord)


def names(folder: Path) -> list[str]:
    """The programs of a folder, sorted. Raises RunError where it has none, too many, or one of a bad name."""
    found: list[str] = []
    try:
        with os.scandir(folder) as files:
            for number, file in enumerate(files):
                if number >= MOST_FILES or len(found) > MOST_PROGRAMS:
                    raise RunError(f"{folder}: has more than {MOST_PROGRAMS} programs, or many other files")
                if file.name.endswith(".py") and not file.name.startswith("."):
                    found.append(file.name.removesuffix(".py"))
    except OSError as error:
        raise RunError(f"{folder}: cannot be read as a pool ({reason(error)})") from None
    if not found:
        raise RunError(f"{folder}: has no environment program (*.py)")
    for name in found:
        if not _NAME.fullmatch(name):
            raise RunError(
                f"{folder}: {line(name, 100)!r} is no name of a program; use at most 100 letters, digits, '_', '-', '.'"
            )
    return sorted(found)


def read_program(folder: Path, name: str) -> PoolProgram:
    """A program with its hint and record. Raises RunError where it is missing, unreadable, or not as recorded."""
    source = _text(folder / f"{name}.py")
    if source is None:
        raise RunError(f"{folder}: the program {name} is missing")
    path = folder / f"{name}.hint"
    hint = (_text(path) or "").strip()
    if len(hint) > MOST_HINT:
        raise RunError(f"{path}: a hint has at most {MOST_HINT} characters")
    record = _record(folder / f"{name}.json")
    if record is None:
        return PoolProgram(name, source, hint)
    for same, what in (
        (record.program == program_digest(source), f"{name}.py"), (record.hint == _hint_digest(hint), f"{name}.hint"),
    ):  # fmt: skip
        if not same:
            raise RunError(f"{folder}: {what} was changed since {name}.json was written; delete the record, or mend it")
    return PoolProgram(name, source, hint, record.skill, record.origin, record.levels)


def write_program(folder: Path, program: PoolProgram) -> None:
    """Write a program into a pool; the program comes last, so that one that is listed is whole.

    Raises RunError for one that is too large to be read again, OSError.
    """
    source, hint = program.source.encode(), program.hint.strip()
    if len(source) > PROGRAM_BYTES:
        raise RunError(f"{folder}: the program {program.name} is over {PROGRAM_BYTES} bytes")
    digests = program_digest(program.source), _hint_digest(hint)
    record = ProgramRecord(*digests, program.skill, program.origin, program.levels)
    if hint:
        replace(folder / f"{program.name}.hint", hint.encode())
    else:  # one without its program may lie here
        (folder / f"{program.name}.hint").unlink(missing_ok=True)
    replace(folder / f"{program.name}.json", msgspec.json.format(msgspec.json.encode(record)) + b"\n")
    replace(folder / f"{program.name}.py", source)


def entry(program: PoolProgram) -> Entry:
    """The program in the list of its pool."""
    digests = program_digest(program.source), _hint_digest(program.hint)
    return Entry(program.name, *digests, program.skill or "", program.levels)


def listed(folder: Path) -> PoolList:
    """The list of a pool. Raises RunError with the first file that cannot be read."""
    return PoolList(tuple(entry(read_program(folder, name)) for name in names(folder)))


def _hint_digest(hint: str) -> str:
    return program_digest(hint) if hint else ""


def _text(path: Path) -> str | None:
    """A file of UTF-8; None where there is none."""
    data = _bytes(path, PROGRAM_BYTES)
    if data is None:
        return None
    try:
        return decoded(bytes.decode, data)
    except UnreadableError as error:
        raise RunError(f"{path}: {error}") from None


def _record(path: Path) -> ProgramRecord | None:
    data = _bytes(path, RECORD_BYTES)
    if data is None:
        return None
    try:
        return decoded(_records.decode, data)
    except UnreadableError as error:
        raise RunError(f"{path}: is no record of a program ({error})") from None


def _bytes(path: Path, most: int) -> bytes | None:
    try:
        refuse_outside(path)
        return read(path, most)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(f"{path}: {reason(error)}") from None
