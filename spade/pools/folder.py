"""A pool on disk: a folder of programs. All files except NAME.py are optional.

NAME.py     the program
NAME.hint   its hint
NAME.json   its record: digests of program and hint, skill, origin, lineage

Other people may have written these files. Each file is read within bounds, and any fault is reported in one line that
names the file.
"""

import os
import re
from hashlib import sha256
from pathlib import Path

import msgspec

from spade.codec import compute_program_digest
from spade.config import Skill
from spade.decoding import UnreadableError, try_decode
from spade.disk import read, refuse_outside, replace
from spade.errors import RunError, format_reason
from spade.protocol import MOST_HINT, Form
from spade.text import as_line

POOL = "pool"  # folder in the run directory that holds the run's pool
MOST_PROGRAMS = 65_536
MOST_FILES = 4 * MOST_PROGRAMS  # files of any kind in a folder
PROGRAM_BYTES, RECORD_BYTES = 1 << 20, 1 << 16
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


class ProgramLineage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The environment of a run that a program comes from. Figures are None until they are measured."""

    run: str
    """Id of the run."""

    environment: str
    """Id of the environment in the run."""

    name: str = ""
    """Name of the program's class."""

    step: int | None = None
    """Learner step of the oldest policy that sampled the program, or None if no policy did."""

    document: str = ""
    """Id of the document that its designer was given, or ""."""

    reads: Form = "inside"
    """Form of the actions that plays send to the program."""

    single_turn: bool = False
    """True if each play of admission ended with its first action (as in Verdict)."""

    win_rate: float | None = None
    """Win rate of the plays without the hint."""

    win_rate_hinted: float | None = None
    """Win rate of the plays with the hint."""

    regret: float | None = None
    """Hint-based regret."""

    audit: str = ""
    """State of the audit, or "" if it did not begin."""


class ProgramRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The record of a program."""

    program: str
    """Digest of the program."""

    hint: str = ""
    """Digest of the hint, or "" without a hint."""

    skill: Skill | None = None
    """Skill of the program, if known."""

    origin: str = ""
    """Origin of the program, in words."""

    levels: bool = False
    """True if the program comes from a library and has a line that sets its level."""

    lineage: ProgramLineage | None = None
    """The environment that the program comes from, if it is from a run."""


class PoolProgram(msgspec.Struct, frozen=True):
    """A program of a pool."""

    name: str
    """Name of the program."""

    source: str
    """Source text of the program."""

    hint: str = ""
    """The hint, or ""."""

    skill: Skill | None = None
    """Skill of the program, if known."""

    origin: str = ""
    """Origin of the program, in words."""

    levels: bool = False
    """As in ProgramRecord."""

    lineage: ProgramLineage | None = None
    """As in ProgramRecord."""


class SeedPool(msgspec.Struct, frozen=True, array_like=True):
    """The programs that designers of a run vary from the start. The run keeps them."""

    programs: tuple[PoolProgram, ...] = ()
    """These programs."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A program in the list of a pool."""

    name: str
    """Name of the program."""

    program: str
    """Digest of the program."""

    hint: str = ""
    """Digest of the hint, or "" without a hint."""

    skill: str = ""
    """Skill of the program, or "" if unknown."""

    levels: bool = False
    """As in ProgramRecord."""


class PoolList(msgspec.Struct, frozen=True, array_like=True):
    """The list of a pool's programs."""

    entries: tuple[Entry, ...]
    """Entries sorted by name."""

    @property
    def digest(self) -> str:
        """Return a digest of everything in the list that is played. The origins do not count."""
        return sha256(msgspec.msgpack.encode(self.entries)).hexdigest()[:32]

    def difference(self, other: "PoolList") -> str:
        """Describe the first program that differs in `other`. Returns "" if the lists are equal."""
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


def list_names(folder: Path) -> list[str]:
    """Return the names of a folder's programs, sorted.

    Raises RunError if the folder contains no programs, too many programs, or a bad name.
    """
    found: list[str] = []
    try:
        with os.scandir(folder) as files:
            for number, file in enumerate(files):
                if number >= MOST_FILES or len(found) > MOST_PROGRAMS:
                    raise RunError(f"{folder}: has more than {MOST_PROGRAMS} programs, or many other files")
                if file.name.endswith(".py") and not file.name.startswith("."):
                    found.append(file.name.removesuffix(".py"))
    except OSError as error:
        raise RunError(f"{folder}: cannot be read as a pool ({format_reason(error)})") from None
    if not found:
        raise RunError(f"{folder}: has no environment program (*.py)")
    for name in found:
        if not _NAME.fullmatch(name):
            raise RunError(
                f"{folder}: {as_line(name, 100)!r} is no name of a program; use at most 100 letters, "
                f"digits, '_', '-', '.'"
            )
    return sorted(found)


def read_program(folder: Path, name: str) -> PoolProgram:
    """Read a program with its hint and record.

    Raises RunError if the program is missing or unreadable, or if it differs from its record.
    """
    source = _read_text(folder / f"{name}.py")
    if source is None:
        raise RunError(f"{folder}: the program {name} is missing")
    path = folder / f"{name}.hint"
    hint = (_read_text(path) or "").strip()
    if len(hint) > MOST_HINT:
        raise RunError(f"{path}: a hint has at most {MOST_HINT} characters")
    record = _record(folder / f"{name}.json")
    if record is None:
        return PoolProgram(name, source, hint)
    for same, what in (
        (record.program == compute_program_digest(source), f"{name}.py"),
        (record.hint == _compute_hint_digest(hint), f"{name}.hint"),
    ):  # fmt: skip
        if not same:
            raise RunError(
                f"{folder}: {what} was changed since {name}.json was written; restore it, or delete {name}.json"
            )
    return PoolProgram(name, source, hint, record.skill, record.origin, record.levels, record.lineage)


def write_program(folder: Path, program: PoolProgram) -> None:
    """Write a program into a pool. The program file comes last, so that a listed program is whole.

    Raises RunError if it is too large to be read again. Raises OSError.
    """
    refuse_oversize(f"{folder}", program)
    source, hint = program.source.encode(), program.hint.strip()
    digests = compute_program_digest(program.source), _compute_hint_digest(hint)
    record = ProgramRecord(*digests, program.skill, program.origin, program.levels, program.lineage)
    if hint:
        replace(folder / f"{program.name}.hint", hint.encode())
    else:  # a write that was killed may have left a hint
        (folder / f"{program.name}.hint").unlink(missing_ok=True)
    replace(folder / f"{program.name}.json", msgspec.json.format(msgspec.json.encode(record)) + b"\n")
    replace(folder / f"{program.name}.py", source)


def refuse_oversize(where: str, program: PoolProgram) -> None:
    """Raise RunError, with the place `where`, if a program or its hint is too large for a pool."""
    if len(program.source.encode()) > PROGRAM_BYTES:
        raise RunError(f"{where}: the program {program.name} is over {PROGRAM_BYTES} bytes")
    if len(program.hint.strip()) > MOST_HINT:
        raise RunError(f"{where}: the hint of {program.name} is over {MOST_HINT} characters")


def make_entry(program: PoolProgram) -> Entry:
    """Return the program's entry in the list of its pool."""
    digests = compute_program_digest(program.source), _compute_hint_digest(program.hint)
    return Entry(program.name, *digests, program.skill or "", program.levels)


def read_list(folder: Path) -> PoolList:
    """Read the list of a pool. Raises RunError with the first file that cannot be read."""
    return PoolList(tuple(make_entry(read_program(folder, name)) for name in list_names(folder)))


def _compute_hint_digest(hint: str) -> str:
    return compute_program_digest(hint) if hint else ""


def _read_text(path: Path) -> str | None:
    """Read a UTF-8 file. Returns None if it is missing."""
    data = _read_bytes(path, PROGRAM_BYTES)
    if data is None:
        return None
    try:
        return try_decode(bytes.decode, data)
    except UnreadableError as error:
        raise RunError(f"{path}: {error}") from None


def _record(path: Path) -> ProgramRecord | None:
    data = _read_bytes(path, RECORD_BYTES)
    if data is None:
        return None
    try:
        return try_decode(_records.decode, data)
    except UnreadableError as error:
        raise RunError(f"{path}: is no record of a program ({error})") from None


def _read_bytes(path: Path, most: int) -> bytes | None:
    try:
        refuse_outside(path)
        return read(path, most)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(f"{path}: {format_reason(error)}") from None
