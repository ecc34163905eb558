"""The documents from which designers take their themes: shipped ones, a file or folder of texts, or a built mixture.

A domain with variants also has settings: everyday services that its programs simulate.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from actors.corpus.documents import Corpus, InMemoryCorpus, make, read_line
from actors.corpus.indexed import IndexedCorpus
from actors.corpus.settings import compute_digest, read_settings
from actors.corpus.sources import read_rows
from actors.text.profile import Document
from spade.config import DOMAINS, Config, DomainName, list_mixtures
from spade.decoding import UnreadableError
from spade.errors import ConfigError, RunError, format_reason

__all__ = ["Corpus", "Grounds", "find_built_path", "load", "load_grounds"]

HELD_CHARACTERS = 1 << 26  # most characters of a corpus that is held in memory


@dataclass(frozen=True)
class Grounds:
    """The documents and settings that design jobs draw from."""

    documents: Corpus
    """The documents."""

    settings: tuple[str, ...]
    """Everyday services to simulate. Empty in a domain without variants."""

    digest: str
    """A digest that shows whether another host has the same documents and settings."""


def load_grounds(config: Config) -> Grounds:
    """Load the documents and settings of a run.

    Raises ConfigError as `load` does, and if the settings cannot be read.
    """
    documents = load(config.design.corpus, config.run.domain)
    settings = read_settings(config.tools.settings) if DOMAINS[config.run.domain].variants else ()
    return Grounds(documents, settings, compute_digest(documents.digest, settings))


def load(path: str, domain: DomainName = "games") -> Corpus:
    """Load a corpus: "builtin", "none", a JSONL, a Parquet file or a folder.

    A JSONL is read by index. A Parquet file or a folder is held in memory. "builtin" differs by domain, and "none" is
    empty. A missing `id` becomes the document's number, and a missing `title` the first words of the text. Raises
    ConfigError if the path does not exist, contains something else than documents, or is empty.
    """
    if not path:  # "" as a path would mean the working directory
        raise ConfigError("design.corpus: is empty; give a file of documents, 'builtin' or 'none'")
    try:
        return _load(path, domain)
    except FileNotFoundError:
        raise ConfigError(f"design.corpus: {path}: No such file or directory; {_suggest_remedy(path)}") from None
    except OSError as error:
        place = path if error.filename is None else os.fsdecode(error.filename)
        raise ConfigError(
            f"design.corpus: {place}: {format_reason(error)}; give a file of documents, 'builtin' or 'none'"
        ) from None
    except (RunError, ConfigError) as error:
        raise ConfigError(f"design.corpus: {error}") from None


def find_built_path(name: str) -> Path:
    """Return the path to which `spade corpus build NAME` writes a mixture. Recipes look for their mixture there."""
    return Path("corpora") / f"{name}.jsonl"


def _load(path: str, domain: DomainName) -> Corpus:
    if path == "none":
        return InMemoryCorpus(())
    if path == "builtin":
        shipped = Path(__file__).parent / DOMAINS[domain].documents
        return InMemoryCorpus(read_line(line, 0) for line in shipped.read_bytes().splitlines())
    file = Path(path)
    return _hold_documents(file) if file.is_dir() or file.suffix == ".parquet" else IndexedCorpus(file)


def _hold_documents(path: Path) -> Corpus:
    documents: list[Document] = []
    held = 0
    for row in read_rows(path):
        held += len(row.text)
        if held > HELD_CHARACTERS:
            raise RunError(
                f"{path}: is over {HELD_CHARACTERS} characters, too much to hold in memory; "
                "`spade corpus build` makes a file of it that is read by index"
            )
        try:
            documents.append(make(row.text, row.word("id") or row.id, row.word("field"), row.word("title")))
        except UnreadableError as error:
            raise RunError(f"{row.where}: {error}") from None
    if not documents:
        raise RunError(f"{path} holds no document")
    return InMemoryCorpus(documents)


def _suggest_remedy(path: str) -> str:
    """Suggest how to get the documents that are missing at `path`."""
    for name in list_mixtures():
        if Path(path).absolute() == find_built_path(name).absolute():
            return f"`spade corpus build {name}` makes it, --set design.corpus=builtin uses the few documents that ship"
    return "give a file of documents (`spade corpus build` makes one), 'builtin' or 'none'"
