"""`records.jsonl`: one line for each sample. One process at a time appends to it and flushes.

A kill loses at most the line that is being written. This line still lacks a newline, so it is dropped when the file is
opened again, and its sample is played again.
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
from spade.disk import open_for_reading
from spade.errors import RunError, format_reason
from spade.evaluations.record import SampleRecord, SampleSchedule, read_record, write_record
from spade.text import as_line as one_line

LONGEST = 1 << 25  # bytes of one line


def read_records(file: Path, scheduled: SampleSchedule) -> Iterator[SampleRecord]:
    """Yield the records of a file, which another process may be writing.

    Of two records for one sample, the first counts. A last line without a newline does not count. Raises RunError with
    the line that is damaged or that belongs to another evaluation. Raises OSError.
    """
    seen: set[tuple[str, int]] = set()
    with open_for_reading(file) as opened:
        for record, _ in _read_records(file, opened, scheduled):
            if record.key not in seen:
                seen.add(record.key)
                yield record


class RecordFile:
    """The records so far, without their texts, and the open file to append to. The context manager closes the file."""

    def __init__(self, file: Path, scheduled: SampleSchedule) -> None:
        """Open the file and read its records.

        Raises RunError if another process has the file open, or if a line is not a record of this evaluation. Raises
        OSError.
        """
        self.records: dict[tuple[str, int], SampleRecord] = {}
        self.file = file
        self._scheduled = scheduled
        self._end = 0  # position after the last whole line
        self._opened = _open_own(file)
        try:
            with open_for_reading(file) as existing:
                for record, self._end in _read_records(file, existing, scheduled):
                    self.records.setdefault(record.key, _drop_text(record))
            self._opened.truncate(self._end)  # a kill may have left half a line
        except BaseException:
            self._opened.close()
            raise

    def __enter__(self) -> "RecordFile":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._opened.close()

    @property
    def size(self) -> int:
        """Return the length of the whole lines in bytes."""
        return self._end

    @property
    def missing(self) -> list[tuple[str, int]]:
        """Return the scheduled (item, sample) pairs without a record, in playing order."""
        return [key for key in self._scheduled if key not in self.records]

    def add(self, record: SampleRecord) -> bool:
        """Append a record. Returns False, and appends nothing, if the sample has a record already.

        The operating system has the line before this returns, so the line outlives a killed process. Raises RunError
        if the line cannot be written. The file is then as before.
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
            # Another record after half a line would damage both.
            self._opened.truncate(self._end)
            raise RunError(f"{self.file}: a record cannot be written ({format_reason(error)})") from None
        self._end += len(line)
        self.records[record.key] = _drop_text(record)
        return True


def _open_own(file: Path) -> RawIOBase:
    """Open a file for appending, without a buffer, for this process alone."""
    # The file may belong to anybody: do not follow a link or wait for the reader of a FIFO.
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    opened = os.fdopen(os.open(file, flags, 0o644), "r+b", buffering=0)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        opened.close()
        raise RunError(f"{file}: another process writes this evaluation; wait until it has ended") from None
    return opened


def _read_records(file: Path, opened: BinaryIO, scheduled: SampleSchedule) -> Iterator[tuple[SampleRecord, int]]:
    """Yield each record, with the position after its line."""
    number = end = 0
    with _explain_errors(file):
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
                sample = f"sample {record.sample} of {name!r}"
                raise UnreadableError(f"line {number}: {sample} belongs to another evaluation")
            yield record, end


@contextmanager
def _explain_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except UnreadableError as error:
        raise RunError(f"{file}, {error}") from None


def _drop_text(record: SampleRecord) -> SampleRecord:
    """Drop a record's text, because the texts of a long run do not fit the memory."""
    return msgspec.structs.replace(record, text="")
