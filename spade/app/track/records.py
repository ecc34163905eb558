"""Read the records of a run's `metrics.jsonl` from a position on, while the run still appends to it."""

import hashlib
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple

import msgspec
from msgspec import Meta

from replay.inspect.journal import ROW_BYTES
from spade.decoding import UnreadableError, try_decode
from spade.disk import open_for_reading
from spade.errors import RunError
from spade.protocol import SkillFigures

MOST_BYTES = 1 << 22
"""Bytes of the journal after which a batch of records ends."""
_TAIL_BYTES = 4_096
_NOT_FIGURES = ("kind", "time")
_SKILL_TAG = SkillFigures.__name__

Count = Annotated[int, Meta(ge=0, le=1 << 53)]
Figures = dict[tuple[str, ...], float]

_rows: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


class Position(msgspec.Struct, frozen=True):
    """The place in the journal up to which records were read."""

    lines: Count = 0
    """Number of lines before the place."""

    bytes: Count = 0
    """Number of bytes before the place."""

    tail: str = ""
    """Digest of the last bytes before the place. It shows that the journal is still the same."""

    step: Count = 0
    """Learner step of the last record that has one."""


class JournalRecord(NamedTuple):
    """One row of the journal."""

    number: int
    """Number of the row's line in the journal, from 1."""

    kind: str
    """Kind of the row: "step", "evaluation", "diversity" or "event"."""

    time: float
    """Unix time of the row, s."""

    step: int
    """Learner step of the row. For an event: the step of the newest row before the event."""

    figures: Figures
    """Every number of the row except its time, by its path in the row: ("skills", "Math Computation", "regret")."""

    text: str
    """The words of an event. "" for other kinds."""

    @property
    def named_figures(self) -> dict[str, float]:
        """Return the figures by name, for example "step/skills/Math Computation/regret"."""
        return {"/".join((self.kind, *path)): value for path, value in self.figures.items()}


class RecordBatch(NamedTuple):
    """Records that follow a position."""

    records: list[JournalRecord]
    """The readable records."""

    unreadable: int
    """Number of lines that are not records. A replay service that was killed may have left half a row."""

    after: Position
    """The position after the last line."""


def read_batch(journal: Path, after: Position) -> RecordBatch:
    """Read the records after a position. The batch is empty if the run has not written a further whole line.

    Raises OSError, or RunError if the journal was cut or replaced since the position was taken.
    """
    records: list[JournalRecord] = []
    lines, step = after.lines, after.step
    with open_for_reading(journal) as file:
        if _tail(file, after.bytes) != after.tail:
            raise RunError(
                f"{journal}: is not the file that was tracked before, or it was cut; delete track/KIND.json beside it "
                "to track it from its beginning"
            )
        end = after.bytes
        while end < after.bytes + MOST_BYTES and (line := _whole_line(file)):
            end, lines = file.tell(), lines + 1
            record = _record(line, lines, step)
            if record is not None:
                step = record.step
                records.append(record)
        position = Position(lines, end, _tail(file, end), step)
    return RecordBatch(records, lines - after.lines - len(records), position)


def _tail(file: BinaryIO, end: int) -> str:
    """Return the digest of the last bytes before `end`, or "" if `end` is 0. Leaves the file's position at `end`."""
    start = max(end - _TAIL_BYTES, 0)
    file.seek(start)
    return hashlib.blake2b(file.read(end - start), digest_size=16).hexdigest() if end else ""


def _whole_line(file: BinaryIO) -> bytes:
    """Read the next line, or return b"" if its end is not written yet.

    If the line is longer than ROW_BYTES, returns only its first ROW_BYTES. They are not valid JSON.
    """
    line = part = file.readline(ROW_BYTES)
    while len(part) == ROW_BYTES and not part.endswith(b"\n"):
        part = file.readline(ROW_BYTES)
    return line if part.endswith(b"\n") else b""


def _record(line: bytes, number: int, step: int) -> JournalRecord | None:
    """Parse a line, or return None if the line is not a record. `step` is the step of the record before it."""
    try:
        row = try_decode(_rows.decode, line)
    except UnreadableError:
        return None
    figures = dict(_figures({name: value for name, value in row.items() if name not in _NOT_FIGURES}))
    found = figures.get(("learner_step",), figures.get(("step",), step))
    match row:
        case {"kind": "event", "event": str(event), "time": int() | float() as time}:
            why = row.get("why")
            return JournalRecord(number, "event", time, step, figures, f"{event}: {why}" if why else event)
        case {"kind": str(kind), "time": int() | float() as time}:
            return JournalRecord(number, kind, time, int(found), figures, "")
    return None


def _figures(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield the numbers in a value with their paths.

    The figures of a skill are a list in the journal, and get their names here. The items of other lists are named "0",
    "1" and so on.
    """
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _figures(each, (*path, name))
    elif isinstance(value, list):
        names = (_SKILL_TAG, *SkillFigures.__struct_fields__) if value[:1] == [_SKILL_TAG] else map(str, count())
        for name, each in zip(names, value, strict=False):
            yield from _figures(each, (*path, name))
    elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max:
        yield path, float(value)
