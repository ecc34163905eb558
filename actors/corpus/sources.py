"""Reads rows of texts from JSONL, Parquet and text files, folders of these, and data sets of Hugging Face."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from actors.corpus.documents import LONGEST, read_lines
from actors.corpus.foreign import PlacedRow, number_rows, read_parquet_rows
from spade.decoding import UnreadableError, try_decode
from spade.disk import open_for_reading, read
from spade.errors import ConfigError, RunError
from spade.extras import describe_installing
from spade.policy.hub import guard_client
from spade.text import as_line, make_visible

TEXTS = (".txt", ".md", ".rst", ".tex")
TABLES = (".jsonl", ".parquet")
LONGEST_SHOWN = 200  # characters of the columns' names in an error
_OWN = ("id", "title", "field")  # columns that are read together with the text, if they exist
_rows = msgspec.json.Decoder(dict[str, Any])


class TextRow(NamedTuple):
    """One row of a source."""

    where: str
    """The row's location, for error messages."""

    id: str
    """An id for a row without a column `id`."""

    text: str
    """The row's text."""

    columns: Mapping[str, Any]
    """All columns by name. Empty for a text file."""

    def word(self, column: str) -> str:
        """Return a column that is a word or a number, as text. Returns "" for other values."""
        value = self.columns.get(column)
        return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def list_files(path: Path) -> list[Path]:
    """Return the file itself, or the text and table files of a folder in name order. Does not follow links to folders.

    Raises OSError, or RunError if a folder lacks such files.
    """
    if not path.is_dir():
        return [path]
    found = []
    for folder, folders, names in os.walk(path, onerror=_raise):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(folder, name) for name in names if not name.startswith(".")]
    found = sorted(file for file in found if file.suffix in (*TEXTS, *TABLES))
    if not found:
        raise RunError(f"{path} has no file that ends in {', '.join((*TEXTS, *TABLES))}")
    return found


def read_rows(path: Path, column: str = "text", beside: Sequence[str] = _OWN) -> Iterator[TextRow]:
    """Yield the rows of a file or folder. A text file is one row. `beside` are the other columns to read from Parquet.

    Raises RunError with the file and the line or row that cannot be read, ConfigError if a package is missing, OSError.
    """
    for file in list_files(path):
        name = "" if file == path else make_visible(f"{file.relative_to(path)}")
        if file.suffix == ".parquet":
            yield from _take_rows(read_parquet_rows(file, column, beside), name, column)
        elif file.suffix in TEXTS:
            yield TextRow(str(file), name or make_visible(file.name), _read_text_file(file), {})
        else:
            yield from _read_jsonl(file, name, column)


def stream_hub_rows(dataset: str, config: str, revision: str, split: str, column: str) -> Iterator[TextRow]:
    """Stream the rows of a data set, by its name on the hub or from a local folder.

    Raises RunError if it cannot be read, ConfigError if the package is missing.
    """
    if find_spec("datasets") is None:
        raise ConfigError(f"data sets of Hugging Face need the package datasets: {describe_installing('corpus')}")
    import datasets

    guard_client()
    datasets.disable_progress_bars()
    logging.getLogger("httpx").setLevel(logging.WARNING)  # otherwise the hub's client logs a line for each request

    def stream() -> Iterator[Mapping[str, Any]]:
        if any((Path(dataset) / name).is_file() for name in ("state.json", "dataset_dict.json")):
            kept = datasets.load_from_disk(dataset)
            yield from kept[split] if isinstance(kept, datasets.DatasetDict) else kept
        else:
            yield from datasets.load_dataset(
                dataset, config or None, split=split, revision=revision or None, streaming=True
            )

    yield from _take_rows(number_rows(stream(), dataset), "", column)


def _raise(error: OSError) -> None:
    raise error


def _read_text_file(file: Path) -> str:
    data = read(file, LONGEST)
    try:
        text = try_decode(bytes.decode, data).removeprefix("\ufeff")
    except UnreadableError as error:
        raise RunError(f"{file}: {error}") from None
    if "\0" in text:
        raise RunError(f"{file}: holds NUL characters, so it is not text")
    return text


def _read_jsonl(file: Path, name: str, column: str) -> Iterator[TextRow]:
    with open_for_reading(file) as opened:
        try:
            for number, _, line in read_lines(opened):
                where = f"{file}, line {number}"
                try:
                    columns = try_decode(_rows.decode, line)
                except UnreadableError as error:
                    raise UnreadableError(f"line {number}: {error}") from None
                yield TextRow(where, _make_id(name, number), _read_text(where, columns, column), columns)
        except UnreadableError as error:
            raise RunError(f"{file}, {error}") from None


def _take_rows(placed_rows: Iterator[PlacedRow], name: str, column: str) -> Iterator[TextRow]:
    for number, (where, columns) in enumerate(placed_rows, 1):
        yield TextRow(where, _make_id(name, number), _read_text(where, columns, column), columns)


def _make_id(name: str, number: int) -> str:
    return f"{name}:{number}" if name else str(number)


def _read_text(where: str, columns: Mapping[str, Any], column: str) -> str:
    """Return the text of a row, or "" if it is null."""
    if column not in columns:
        there = as_line(", ".join(map(str, columns)), LONGEST_SHOWN) or "none"
        raise RunError(f"{where}: has no text in column {column!r}; its columns: {there}")
    text = columns[column]
    if text is not None and not isinstance(text, str):
        raise RunError(f"{where}: column {column!r} must be text, is {type(text).__name__}")
    if text is not None and len(text) > LONGEST:
        raise RunError(f"{where}: is over {LONGEST} characters")
    return text or ""
