"""A document as a line of JSON, and a corpus: documents in order, with one digest."""

import hashlib
from abc import abstractmethod
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, overload

import msgspec

from actors.text.profile import Document
from spade.decoding import UnreadableError, try_decode

LONGEST = 1 << 24  # bytes of a line; a longer line is an error
_TITLE_CHARACTERS = 60


class _Line(msgspec.Struct):
    """One line of a corpus. Only `text` is required."""

    text: str
    """The document's text."""

    id: str | int | None = None
    """The document's id. If None, the line number becomes the id."""

    field: str = ""
    """The document's subject."""

    title: str = ""
    """The document's title. If "", the first words of the text become the title."""


_lines = msgspec.json.Decoder(_Line)


def make(text: str, id: str, field: str = "", title: str = "") -> Document:
    """Make a document. A missing `title` becomes the first words of the text. Raises UnreadableError without text."""
    text = text.strip()
    if not text:
        raise UnreadableError("the text is empty")
    return Document(
        id,
        field,
        title.strip() or " ".join(text.split(maxsplit=_TITLE_CHARACTERS)[:_TITLE_CHARACTERS])[:_TITLE_CHARACTERS],
        text,
    )


def read_line(line: bytes, number: int) -> Document:
    """Parse one line into a Document. Without an id, use `number`.

    Raises UnreadableError if the line is not a document.
    """
    try:
        read = try_decode(_lines.decode, line)
    except UnreadableError as error:
        raise UnreadableError(f"{error}; a line is a JSON object with a 'text'") from None
    return make(read.text, str(number if read.id is None else read.id), read.field, read.title)


def write_line(document: Document) -> bytes:
    """Write the line from which `read_line` makes the same document."""
    return msgspec.json.encode(document) + b"\n"


def read_lines(opened: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """Yield (line number from 1, position in bytes, line) of each line that is not blank. Skips a byte order mark.

    Raises UnreadableError if a line is over LONGEST bytes.
    """
    number = at = 0
    while line := opened.readline(LONGEST + 1):
        number += 1
        if len(line) > LONGEST:
            raise UnreadableError(f"line {number}: is over {LONGEST} bytes")
        if number == 1 and line.startswith(BOM_UTF8):
            line, at = line.removeprefix(BOM_UTF8), len(BOM_UTF8)
        if not line.isspace():
            yield number, at, line
        at += len(line)


class Digest:
    """The digest of documents in order: 128-bit BLAKE2b of their lines as `write_line` writes them."""

    def __init__(self, documents: Iterable[Document] = ()) -> None:
        self._hashed = hashlib.blake2b(digest_size=16)
        for document in documents:
            self.add(document)

    def add(self, document: Document) -> None:
        """Add the next document."""
        self._hashed.update(write_line(document))

    @property
    def hex(self) -> str:
        """Return the digest of the documents so far."""
        return self._hashed.hexdigest()


class Corpus(Sequence[Document]):
    """Documents in order. `digest` tells whether another host has the same documents."""

    digest: str

    @overload
    def __getitem__(self, index: int) -> Document: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Document]: ...
    def __getitem__(self, index: int | slice) -> Document | Sequence[Document]:
        """Return one document, or several."""
        places = range(len(self))[index]
        return self._read(places) if isinstance(places, int) else [self._read(place) for place in places]

    @abstractmethod
    def _read(self, place: int) -> Document:
        """Return the document at a place from 0."""


class InMemoryCorpus(Corpus):
    """A small corpus, held in memory."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._documents = tuple(documents)
        self.digest = Digest(self._documents).hex

    def __len__(self) -> int:
        return len(self._documents)

    def _read(self, place: int) -> Document:
        return self._documents[place]
