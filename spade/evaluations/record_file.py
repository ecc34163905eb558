"""`records.jsonl`: one line a sample, appended and flushed by one process at a time.

A kill loses at most the line that is being written. It has no newline yet, so it is dropped when the file is opened
again, and its sample is played anew.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import msgspec

from spade.decoding import UnreadableError
from spade.disk import regular
from spade.errors import RunError, reason
from spade.evaluations.record import SampleRecord, Scheduled, read_record, write_record
from spade.text import line as one_line

LONGEST = 1 << 25  # bytes of a line


def read_records(file: Path, scheduled: Scheduled) -> Iterator[SampleRecord]:
    """The records of a file, which may be written meanwhile. Of two for one sample the first counts.

    A last line without a newline is no record. Raises RunError with the line that is damaged, or that is of another
    evaluation, OSError.
    """
    seen: set[tuple[str, int]] = set()
    with regular(file) as opened:
        for record, _ in _each(file, opened, scheduled):
            if record.key not in seen:
                seen.add(record.key)
                yield record


class RecordFile:
    """The records so far, without their texts, and the file to append further ones to. A context manager."""

    def __init__(self, file: Path, scheduled: Scheduled) -> None:
        """Raises RunError where another process has the file open, or a line of it is no record of this evaluation.

        Raises OSError.
        """
        self.records: dict[tuple[str, int], SampleRecord] = {}
        self.file = file
        self._scheduled = scheduled
        self._end = 0  # of the last whole line
        self._opened = _own(file)
        try:
            with regular(file) as existing:
                for record, self._end in _each(file, existing, scheduled):
                    self.records.setdefault(record.key, _textless(record))
            self._opened.truncate(self._end)  # what follows was cut by a kill
        except BaseException:
            self._opened.close()
            raise

    def __enter__(self) -> "RecordFile":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._opened.close()

    @property
    def size(self) -> int:
        """Length of the whole lines in bytes."""
        return self._end

    @property
    def missing(self) -> list[tuple[str, int]]:
        """Item and sample of those that have no record, in the order in which to play them."""
        return [key for key in self._scheduled if key not in self.records]

    def add(self, record: SampleRecord) -> bool:
        """Append a record; False where its sample has one, which stays.

        The line reaches the system before this returns, so that no kill of a process loses it. Raises RunError where it
        cannot be written; nothing of it is left then.
        """
        if record.key not in self._scheduled:
            raise ValueError(f"{record.key} is not scheduled")
        if record.key in self.records:
            return False
        line = memoryview(write_record(record))
        try:
            written = 0
            while written < len(line):
                written += self._opened.write(line[written:]) or 0
        except OSError as error:
            # A further record behind half a line would damage both.
            self._opened.truncate(self._end)
            raise RunError(f"{self.file}: a record cannot be written ({reason(error)})") from None
        self._end += len(line)
        self.records[record.key] = _textless(record)
        return True


def _own(file: Path) -> RawIOBase:
    """Open for appending, without a buffer, for this process alone."""
    # Not through a link, nor waiting for the reader of a FIFO: the file may be anybody's.
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    opened = os.fdopen(os.open(file, flags, 0o644), "r+b", buffering=0)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        opened.close()
        raise RunError(f"{file}: another process is evaluating into it; wait for its end") from None
    return opened


def _each(file: Path, opened: BinaryIO, scheduled: Scheduled) -> Iterator[tuple[SampleRecord, int]]:
    """Each record, with the place behind its line."""
    number = end = 0
    with _said(file):
        while data := opened.readline(LONGEST + 1):
            number += 1
            if len(data) > LONGEST:
                raise UnreadableError(f"line {number}: is over {LONGEST} bytes")
            if not data.endswith(b"\n"):
                return
            end += len(data)
            try:
                record = read_record(data)
            except UnreadableError as error:
                remedy = "delete this line to play its sample anew"
                raise UnreadableError(f"line {number}: is damaged ({error}); {remedy}") from None
            if record.key not in scheduled:
                name = one_line(record.item, 80)
                raise UnreadableError(f"line {number}: sample {record.sample} of {name!r} is of another evaluation")
            yield record, end


@contextmanager
def _said(file: Path) -> Iterator[None]:
    try:
        yield
    except UnreadableError as error:
        raise RunError(f"{file}, {error}") from None


def _textless(record: SampleRecord) -> SampleRecord:
    """A long run's texts do not fit the memory."""
    return msgspec.structs.replace(record, text="")
