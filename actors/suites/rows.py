"""Reads rows of a given data file: JSON Lines, CSV, Parquet.

Other people wrote these files, so each fault becomes a RunError of one line that names the place.
"""

import csv
import hashlib
import io
from collections.abc import Iterator, Mapping
from itertools import count, starmap
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from actors.corpus.foreign import read_parquet_rows
from spade.decoding import UnreadableError, try_decode
from spade.disk import open_for_reading, read
from spade.errors import ConfigError, RunError
from spade.text import as_line as one_line
from spade.text import make_visible

LONGEST = 1 << 26  # most bytes of a line, or of a whole CSV file
MOST_ROWS = 100_000
LONGEST_ID = 100
_SHOWN = 200  # characters of the columns' names in an error
_objects = msgspec.json.Decoder(dict[str, Any])


class DataRow(NamedTuple):
    """A row of a data file. Columns are found by name, ignoring case."""

    where: str
    """The row's location, for error messages."""

    columns: Mapping[str, Any]
    """Values by column name in lower case."""

    def name(self, *names: str) -> str | None:
        """Return the name of the first of these columns with a value other than null, or None."""
        return next((name for name in names if self.columns.get(name.lower()) is not None), None)

    def find(self, *names: str) -> Any:
        """Return the value of the first of these columns that has one, or None."""
        name = self.name(*names)
        return None if name is None else self.columns[name.lower()]

    def text(self, *names: str) -> str:
        """Return the stripped text of the first of these columns that has a value. A whole number counts as text.

        Raises RunError if there is no text or if it is blank.
        """
        name = self.name(*names)
        if name is None:
            there = one_line(", ".join(map(str, self.columns)), _SHOWN) or "none"
            raise RunError(f"{self.where}: has no column {' or '.join(map(repr, names))}; its columns: {there}")
        value = self.find(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str):
            raise RunError(f"{self.where}, column {name!r}: must be text, is {type(value).__name__}")
        if not value.strip():
            raise RunError(f"{self.where}, column {name!r}: is empty")
        return value.strip()

    def id(self, number: int | None, *names: str) -> str:
        """Return the text of the first of these columns that has a value. If none has one, return `number`, if given.

        Raises RunError if there is no text, or if it is not a valid name of an item.
        """
        name = self.name(*names)
        if name is None and number is not None:
            return str(number)
        found = self.text(*names)
        if len(found) > LONGEST_ID or not found.isprintable():
            raise RunError(f"{self.where}, column {name!r}: {one_line(found, 60)!r} is not a valid name of an item")
        return found

    def category(self, *names: str) -> str:
        """Return the text of the first of these columns that has a value, as one line. Returns "" if it is no text."""
        found = self.find(*names)
        return one_line(found.strip(), LONGEST_ID)[:LONGEST_ID] if isinstance(found, str) else ""


def read_rows(file: Path) -> Iterator[DataRow]:
    """Yield the rows of a file by its suffix: .jsonl, .csv or .parquet.

    Raises RunError with the line or row that cannot be read, ConfigError if a package is missing, OSError.
    """
    readers = {".jsonl": _read_jsonl, ".csv": _read_csv, ".parquet": _read_parquet}
    if file.suffix not in readers:
        raise ConfigError(f"{file}: must end in {' or '.join(readers)}")
    for number, row in enumerate(readers[file.suffix](file), 1):
        if number > MOST_ROWS:
            raise RunError(f"{row.where}: a suite has at most {MOST_ROWS} rows")
        yield DataRow(row.where, {str(name).strip().lower(): value for name, value in row.columns.items()})


def compute_digest(file: Path) -> str:
    """Return the SHA-256 of the file, 64 hex digits. Raises RunError, OSError."""
    hashed = hashlib.sha256()
    with open_for_reading(file) as opened:
        while part := opened.read(1 << 20):
            hashed.update(part)
    return hashed.hexdigest()


class UniqueValues:
    """Refuses values that an earlier row already had."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}

    def add(self, row: DataRow, kind: str, value: str) -> None:
        """Record a value. Raises RunError if another row has the same `value` of this kind."""
        first = self._seen.setdefault(f"{kind} {value}", row.where)
        if first != row.where:
            raise RunError(f"{row.where}: has the same {kind} as {first.rpartition(', ')[2]}: {one_line(value, 60)!r}")


def _read_jsonl(file: Path) -> Iterator[DataRow]:
    with open_for_reading(file) as opened:
        for number in count(1):
            data = opened.readline(LONGEST + 1)
            where = f"{file}, line {number}"
            if not data:
                return
            if len(data) > LONGEST:
                raise RunError(f"{where}: is over {LONGEST} bytes")
            if data.strip():
                yield DataRow(where, _parse_object(where, data.removeprefix(b"\xef\xbb\xbf") if number == 1 else data))


def _parse_object(where: str, data: bytes) -> Mapping[str, Any]:
    try:
        data.decode()
        return try_decode(_objects.decode, data)
    except UnicodeDecodeError as error:
        raise RunError(f"{where}, column {error.start + 1}: is not UTF-8 text") from None
    except UnreadableError as error:
        raise RunError(f"{where}: {error}; a line is a JSON object") from None


def _read_csv(file: Path) -> Iterator[DataRow]:
    data = read(file, LONGEST)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        number, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise RunError(f"{file}, line {number}, column {column}: is not UTF-8 text; convert the file") from None
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] = []
    start = 1
    while (cells := _read_cells(file, lines, start)) is not None:
        where, start = f"{file}, line {start}", lines.line_num + 1
        if not header:
            header = cells
            if len({name.strip().lower() for name in header}) < len(header):
                raise RunError(f"{where}: names a column twice")
        elif cells:
            if len(cells) != len(header):
                raise RunError(f"{where}: has {len(cells)} columns, and the first line names {len(header)}")
            yield DataRow(where, dict(zip(header, cells, strict=True)))


def _read_cells(file: Path, lines: Iterator[list[str]], start: int) -> list[str] | None:
    try:
        return next(lines, None)
    except csv.Error as error:
        raise RunError(f"{file}, line {start}: is not valid CSV ({make_visible(str(error))})") from None


def _read_parquet(file: Path) -> Iterator[DataRow]:
    return starmap(DataRow, read_parquet_rows(file))
