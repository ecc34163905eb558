"""Rows as another package reads them from a file or data set of others."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

from spade.decoding import UnreadableError, each_decoded
from spade.disk import regular
from spade.errors import ConfigError, RunError
from spade.extras import installing

_BATCH = 64  # rows of a Parquet file at once

PlacedRow = tuple[str, Mapping[str, Any]]
"""A row, and before it where it stands, for an error."""


def placed(read_rows: Iterator[Mapping[str, Any]], place: str) -> Iterator[PlacedRow]:
    """The rows with their numbers from 1. Raises RunError with the row at which reading raises anything."""
    left = each_decoded(read_rows)
    for number in count(1):
        where = f"{place}, row {number}"
        try:
            columns = next(left, None)
        except UnreadableError as error:
            raise RunError(f"{where}: {error}") from None
        if columns is None:
            return
        yield where, columns


def parquet_rows(file: Path, needed: str = "", beside: Sequence[str] = ()) -> Iterator[PlacedRow]:
    """The rows of a Parquet file; where it has the column `needed`, with that and those `beside` alone.

    Raises RunError as `placed` does, ConfigError without pyarrow, OSError.
    """
    if find_spec("pyarrow") is None:
        raise ConfigError(f"{file}: give JSON Lines, or install pyarrow, which Parquet needs: {installing('export')}")
    from pyarrow import parquet

    with regular(file) as opened:

        def batches() -> Iterator[Mapping[str, Any]]:
            table = parquet.ParquetFile(opened)
            names = table.schema_arrow.names
            # Where the needed one is missing a row shows which columns there are.
            wanted = [name for name in names if name in (needed, *beside)] if needed in names else names
            for batch in table.iter_batches(_BATCH, columns=wanted):
                yield from batch.to_pylist()

        yield from placed(batches(), str(file))
