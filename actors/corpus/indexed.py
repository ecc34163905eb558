"""A JSONL of documents that is read by index and not held in memory.

The index is a file beside the JSONL, `FILE.index`. It holds the place of each document in the JSONL, and the digest of
all documents. The first reader writes the index, whole or not at all. If this fails, each reader keeps its own index in
memory. The index is valid while the JSONL keeps its size and modification time. A forged index deceives only the
processes that read it.
"""

import hashlib
import logging
import os
import sys
from array import array
from pathlib import Path
from typing import BinaryIO

import msgspec

from actors.corpus.documents import LONGEST, Corpus, Digest, read_line, read_lines
from actors.text.profile import Document
from spade.decoding import UnreadableError, try_decode
from spade.disk import open_for_reading, read, replace
from spade.errors import RunError, format_reason

log = logging.getLogger(__name__)


class CorpusIndex(msgspec.Struct, frozen=True, array_like=True, tag="spade corpus index 1"):
    """The index of a JSONL."""

    size: int
    """Size of the JSONL, in bytes."""

    changed: int
    """Modification time of the JSONL, in nanoseconds since 1970."""

    digest: str
    """Digest of the documents."""

    check: str
    """A checksum of `digest` and `places`, which detects a damaged index."""

    places: bytes
    """First byte of each document, as 64-bit integers of this machine."""


_indices = msgspec.msgpack.Decoder(CorpusIndex)


class IndexedCorpus(Corpus):
    """The documents of a JSONL. Each access reads one document."""

    def __init__(self, path: Path) -> None:
        """Open the JSONL. Raises RunError if `path` is not a JSONL of documents, OSError if it cannot be read."""
        self._path = path
        with open_for_reading(path) as opened:
            found = os.fstat(opened.fileno())
            index = _load_kept_index(path, found) or _make_index(path, opened, found)
            self._descriptor = os.dup(opened.fileno())
        self._places = array("Q")
        self._places.frombytes(index.places)
        self._size = index.size
        self.digest = index.digest

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    def __len__(self) -> int:
        return len(self._places)

    def _read(self, place: int) -> Document:
        start = self._places[place]
        end = self._places[place + 1] if place + 1 < len(self._places) else self._size
        if not start < end <= self._size:
            raise RunError(f"{_name_index_file(self._path)}: names places outside of the JSONL; remove this index")
        line = os.pread(self._descriptor, min(end - start, LONGEST), start)
        try:
            return read_line(line, place + 1)
        except UnreadableError as error:
            raise RunError(
                f"{self._path}, document {place + 1}: is not what it was when this process began ({error}); "
                "restore the run's corpus"
            ) from None


def _name_index_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.index")


def compute_check(digest: str, places: bytes) -> str:
    """Return the checksum of an index."""
    return hashlib.blake2b(digest.encode() + places, digest_size=16, person=sys.byteorder.encode()).hexdigest()


def _load_kept_index(path: Path, found: os.stat_result) -> CorpusIndex | None:
    """Return the index beside the file, or None if it is missing, damaged or out of date."""
    try:
        # A document takes at least 8 bytes in the JSONL, and 8 in the index. So a much larger index is not valid.
        index = try_decode(_indices.decode, read(_name_index_file(path), found.st_size + 1_024))
    except (OSError, RunError, UnreadableError):
        return None
    same = (index.size, index.changed) == (found.st_size, found.st_mtime_ns)
    whole = index.places and len(index.places) % 8 == 0 and compute_check(index.digest, index.places) == index.check
    return index if same and whole else None


def _make_index(path: Path, opened: BinaryIO, found: os.stat_result) -> CorpusIndex:
    places, digest = array("Q"), Digest()
    try:
        for number, at, line in read_lines(opened):
            try:
                digest.add(read_line(line, len(places) + 1))
            except UnreadableError as error:
                raise UnreadableError(f"line {number}: {error}") from None
            places.append(at)
    except UnreadableError as error:
        raise RunError(f"{path}, {error}") from None
    now = os.fstat(opened.fileno())
    if (now.st_size, now.st_mtime_ns) != (found.st_size, found.st_mtime_ns):
        raise RunError(f"{path}: changed while it was read; try again once nothing writes to it")
    if not places:
        raise RunError(f"{path} holds no document; write a JSON object with a 'text' on each line")
    packed = places.tobytes()
    index = CorpusIndex(found.st_size, found.st_mtime_ns, digest.hex, compute_check(digest.hex, packed), packed)
    try:
        replace(_name_index_file(path), msgspec.msgpack.encode(index))
    except OSError as error:
        log.warning(
            "%s: was not written (%s); each process makes its own index in memory",
            _name_index_file(path),
            format_reason(error),
        )
    return index
