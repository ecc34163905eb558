"""The spec of a mixture, in TOML: its sources, the share of each, and the documents to leave out."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from actors.corpus.sources import TextRow, list_files, read_rows, stream_hub_rows
from spade.config import read_toml
from spade.decoding import UnreadableError, try_decode
from spade.disk import read
from spade.errors import ConfigError
from spade.text import as_line

EXCLUSION_BYTES = 1 << 28
SHORTEST = 20  # characters; a shorter text would also exclude unrelated documents

Positive = Annotated[int, Meta(ge=1, le=1_000_000_000)]


class CorpusSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One source of documents. Give either `path` or `dataset`."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    """Name of the source. It becomes the `field` of the source's documents."""

    path: str = ""
    """A JSONL, Parquet or text file, or a folder of them."""

    dataset: str = ""
    """A data set of Hugging Face: its name on the hub, or a local folder."""

    config: str = ""
    """Configuration of the data set."""

    revision: str = ""
    """Revision of the data set."""

    split: str = "train"
    """Split of the data set."""

    column: str = "text"
    """The column of the texts."""

    rows: Positive | None = None
    """Read only this many rows, from the first."""

    count: Positive | None = None
    """Number of documents to draw. If neither `count` nor `weight` is given, all documents are taken."""

    weight: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    """Weight of the source. Replaces `count`: sources share the spec's `documents` by their weights."""

    def read(self) -> Iterator[TextRow]:
        """Yield the source's rows. Raises as `read_rows` and `stream_hub_rows` do."""
        if self.dataset:
            return stream_hub_rows(self.dataset, self.config, self.revision, self.split, self.column)
        return read_rows(Path(self.path), self.column)


class CorpusSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mixture of documents."""

    source: Annotated[tuple[CorpusSource, ...], Meta(min_length=1, max_length=1_000)]
    """The sources."""

    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    """Decides which documents are drawn, and their order."""

    tokens: Positive | None = None
    """Limit of a document, in tokens. A longer document is cut after a whole sentence. If None, no document is cut."""

    tokenizer: str = ""
    """The model with the tokenizer to count with, named as in model.path. "" counts a token for every 4 bytes."""

    documents: Positive | None = None
    """Number of documents in total, if sources have weights."""

    exclude_ids: str = ""
    """A file of ids, one per line. Documents with these ids are left out."""

    exclude_texts: str = ""
    """A file of texts, one per line. Documents that contain such a text are left out. Ignores case and white space."""

    def counts(self) -> list[int | None]:
        """Return the number of documents to draw from each source. None means all."""
        if self.documents is None:
            return [source.count for source in self.source]
        return [*share_out([source.weight or 0.0 for source in self.source], self.documents)]

    def fingerprint(self) -> bytes:
        """Return a digest of the spec and its local files. Files count by name, size and modification time.

        Raises RunError, or OSError if a file is missing.
        """
        named = [Path(text) for text in (self.exclude_ids, self.exclude_texts) if text]
        named += [file for source in self.source if source.path for file in list_files(Path(source.path))]
        sets = (Path(source.dataset) for source in self.source if source.dataset)
        named += [file for folder in sets if folder.is_dir() for file in sorted(folder.rglob("*")) if file.is_file()]
        stats = [(str(file), found.st_size, found.st_mtime_ns) for file in named for found in [file.stat()]]
        return hashlib.blake2b(msgspec.msgpack.encode((self, stats)), digest_size=16).digest()


def share_out(weights: list[float], total: int) -> list[int]:
    """Divide `total` into whole shares in proportion to the weights.

    Shares are rounded down. The rest goes to the largest remainders, in order if they are equal.
    """
    exact = [weight * total / sum(weights) for weight in weights]
    whole = [int(share) for share in exact]
    order = sorted(range(len(weights)), key=lambda place: whole[place] - exact[place])
    for place in order[: total - sum(whole)]:
        whole[place] += 1
    return whole


def read_spec(path: Path) -> CorpusSpec:
    """Read a spec. Raises ConfigError that names the file and the setting, RunError or OSError if it cannot be read."""
    tree = read_toml(path)
    try:
        spec = msgspec.convert(tree, CorpusSpec)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {as_line(str(error), 300)}") from None
    _check(path, spec)
    return spec


def _check(path: Path, spec: CorpusSpec) -> None:
    _check_texts(f"{path}", spec)
    names = [source.name for source in spec.source]
    if len(set(names)) < len(names):
        raise ConfigError(f"{path}: two sources have the same name")
    for source in spec.source:
        where = f"{path}: source {as_line(source.name, 100)}"
        _check_texts(where, source)
        if bool(source.path) == bool(source.dataset):
            raise ConfigError(f"{where}: give a path or a dataset")
        if not source.dataset and (source.config or source.revision or source.split != "train"):
            raise ConfigError(f"{where}: config, revision and split belong to a dataset, not to a path")
        if (source.weight is None) != (spec.documents is None) or (source.count and source.weight):
            raise ConfigError(f"{where}: set documents and give every source a weight, or set neither and use counts")
    for source, count in zip(spec.source, spec.counts(), strict=True):
        if count == 0:
            raise ConfigError(
                f"{path}: source {source.name}: its weight gives it none of the {spec.documents} documents; leave it "
                "out, or ask for more"
            )
    if spec.tokenizer and spec.tokens is None:
        raise ConfigError(f"{path}: has a tokenizer but no limit of tokens; set tokens, or leave tokenizer out")


def _check_texts(where: str, read: CorpusSpec | CorpusSource) -> None:
    """Check that names and paths are printable. Printable paths cannot contain NUL."""
    for key, value in msgspec.structs.asdict(read).items():
        if isinstance(value, str) and not value.isprintable():
            raise ConfigError(f"{where}: {key}: holds characters that cannot be printed: {value!r}")


class Exclusions:
    """The ids and texts that a mixture leaves out."""

    def __init__(self, spec: CorpusSpec) -> None:
        """Read the exclusions.

        Raises ConfigError that names the line of a text that is too short, RunError, OSError.
        """
        self.ids = frozenset(text for _, text in _read_lines(spec.exclude_ids))
        self._texts: dict[str, list[str]] = {}
        for number, text in _read_lines(spec.exclude_texts):
            folded = _fold_text(text)
            if len(folded) < SHORTEST:
                raise ConfigError(
                    f"{spec.exclude_texts}, line {number}: a text to leave out must have at least {SHORTEST} characters"
                )
            self._texts.setdefault(folded[:SHORTEST], []).append(folded)

    def hold(self, text: str) -> bool:
        """Return True if `text` contains one of the excluded texts."""
        if not self._texts:
            return False
        folded = _fold_text(text)
        return any(
            folded.startswith(one, at)
            for at in range(len(folded) - SHORTEST + 1)
            for one in self._texts.get(folded[at : at + SHORTEST], ())
        )


def _fold_text(text: str) -> str:
    return " ".join(text.casefold().split())


def _read_lines(path: str) -> list[tuple[int, str]]:
    if not path:
        return []
    try:
        text = try_decode(bytes.decode, read(Path(path), EXCLUSION_BYTES)).removeprefix("\ufeff")
    except UnreadableError as error:
        raise ConfigError(f"{path}: {error}") from None
    return [(number, one.strip()) for number, one in enumerate(text.split("\n"), 1) if one.strip()]
