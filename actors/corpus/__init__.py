"""The documents that ground designs: the corpus that ships with the package, or any JSONL of texts."""

from pathlib import Path

import msgspec

from actors.text.profile import Document
from spade.decoding import UnreadableError, decoded
from spade.disk import read
from spade.errors import ConfigError, reason

BUILTIN = Path(__file__).parent / "documents.jsonl"
CORPUS_BYTES = 1 << 32
_TITLE_CHARACTERS = 60


class _Line(msgspec.Struct):
    """One line of a corpus; `text` alone is a must."""

    text: str
    id: str | int | None = None
    field: str = ""
    title: str = ""


def load(path: str) -> tuple[Document, ...]:
    """The documents of "builtin" or of a JSONL file, in its order; blank lines are skipped. Of "none" there is none.

    A line without `id` gets its number, one without `title` its first words. Raises ConfigError where there is no such
    file, a line is no document, or there is none.
    """
    if path == "none":
        return ()
    file = BUILTIN if path == "builtin" else Path(path)
    try:
        lines = read(file, CORPUS_BYTES).splitlines()
    except OSError as error:
        raise ConfigError(f"design.corpus: {file}: {reason(error)}; give a JSONL file, 'builtin' or 'none'") from None
    decoder = msgspec.json.Decoder(_Line)
    documents = tuple(_document(file, number, line, decoder) for number, line in enumerate(lines, 1) if line.strip())
    if not documents:
        raise ConfigError(f"design.corpus: {file} holds no document; one JSON object with a 'text' stands on each line")
    return documents


def _document(file: Path, number: int, line: bytes, decoder: msgspec.json.Decoder[_Line]) -> Document:
    try:
        read = decoded(decoder.decode, line)
    except UnreadableError as error:
        raise ConfigError(
            f"design.corpus: {file}, line {number}: {error}; a line is a JSON object with a 'text'"
        ) from None
    text = read.text.strip()
    if not text:
        raise ConfigError(f"design.corpus: {file}, line {number}: the text is empty")
    title = read.title.strip() or " ".join(text.split())[:_TITLE_CHARACTERS]
    return Document(str(number if read.id is None else read.id), read.field, title, text)
