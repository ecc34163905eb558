"""Reads rows that another package decodes from foreign files or data sets."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

from spade.decoding import UnreadableError, read_each
from spade.disk import open_for_reading
from spade.errors import ConfigError, RunError
from spade.extras import describe_installing

PlacedRow = tuple[str, Mapping[str, Any]]
"""The location of a row, for error messages, and the row."""


def number_rows(read_rows: Iterator[Mapping[str, Any]], place: str) -> Iterator[PlacedRow]:
    """Yield the rows with their locations, numbered from 1.

    If reading a row raises any exception, raises RunError that names the row.
    """
    left = read_each(read_rows)
    for number in count(1):
        where = f"{place}, row {number}"
        try:
            columns = next(left, None)
        except UnreadableError as error:
            raise RunError(f"{where}: {error}") from None
        if columns is None:
            return
        yield where, columns


def read_parquet_rows(file: Path, needed: str = "", beside: Sequence[str] = ()) -> Iterator[PlacedRow]:
    """Yield the rows of a Parquet file. If it has the column `needed`, yield only this column and the columns `beside`.

    Raises RunError as `number_rows` does, ConfigError without pyarrow, OSError.
    """
    if find_spec("pyarrow") is None:
        raise ConfigError(
            f"{file}: give JSON Lines, or install pyarrow, which Parquet needs: {describe_installing('export')}"
        )
    from pyarrow import parquet

    with open_for_reading(file) as opened:

        def read_batches() -> Iterator[Mapping[str, Any]]:
            table = parquet.ParquetFile(opened)
            names = table.schema_arrow.names
            # If `needed` is missing, yield all columns, so that the error can list them.
            wanted = [name for name in names if name in (needed, *beside)] if needed in names else names
            # One row at a time: a file of a few kilobytes may have rows of gigabytes.
            for batch in table.iter_batches(1, columns=wanted):
                yield from batch.to_pylist()

        yield from number_rows(read_batches(), str(file))
