"""`spade corpus`: build, show and publish corpora of documents."""

from pathlib import Path
from typing import Annotated

import typer

from spade.app.commands.options import Json, Public, Repository, Update
from spade.app.printing import print_json, say, show

Out = Annotated[Path | None, typer.Option("-o", metavar="FILE", help="The corpus [default: corpora/SPEC.jsonl].")]


def build(
    spec: Annotated[str, typer.Argument(help="A shipped spec's name or a TOML file.")],
    out: Out = None,
) -> None:
    """Build a corpus from its spec.

    Prints the documents that each source gave and dropped, and the digest. The same command continues an interrupted
    build and makes the same corpus. The corpus appears when it is complete.
    """
    from actors.corpus import find_built_path, mixture
    from actors.corpus.spec import read_spec
    from spade.config import list_mixtures
    from spade.errors import ConfigError

    path = list_mixtures().get(spec, Path(spec))
    if not path.exists():
        shipped = ", ".join(list_mixtures())
        raise ConfigError(f"{spec}: No such file or directory; give a TOML file, or a spec that ships: {shipped}")
    file = out or find_built_path(path.stem)
    mixture.build(read_spec(path), file, say)
    say(_summarise_corpus(str(file)))


def show_corpus(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="A file or folder of documents, or builtin.")],
    index: Annotated[int | None, typer.Option(min=0, help="Print the document with this number, from 0.")] = None,
    json: Json = False,
) -> None:
    """Print the size and digest of a corpus, or one of its documents."""
    from actors.corpus import load
    from spade.errors import ConfigError

    documents = load(corpus)
    if index is None:
        facts = {"documents": len(documents), "digest": documents.digest}
        print_json(facts) if json else say(_summarise_corpus(corpus))
        return
    if index >= len(documents):
        raise ConfigError(f"--index {index}: {corpus} has {len(documents)} documents")
    document = documents[index]
    if json:
        print_json(document)
        return
    say(f"{document.id}  {document.field}  {document.title}")
    show(document.text)


def push(
    corpus: Annotated[Path, typer.Argument(metavar="FILE", help="A corpus: a JSON Lines file of documents.")],
    repository: Repository,
    licence: Annotated[
        str, typer.Option("--licence", metavar="ID", help="The licence of all documents, as the hub names it.")
    ] = "",
    public: Public = False,
    update: Update = False,
) -> None:
    """Publish a corpus with a card as a data set on the Hugging Face hub.

    A new repository is private without --public. Reads every document before anything is published. A spec with
    `dataset = "REPO"` takes documents from the repository.
    """
    from tempfile import TemporaryDirectory

    from spade.app.models.push import check_name, push_folder
    from spade.app.pools.cards import write_corpus
    from spade.errors import ConfigError

    check_name(repository)
    if corpus.suffix != ".jsonl":
        raise ConfigError(f"{corpus}: is not a JSON Lines file; `spade corpus build` makes one from other documents")
    with TemporaryDirectory(prefix="spade-corpus-") as place:
        write_corpus(Path(place), corpus, licence)
        address = push_folder(
            Path(place), repository, "dataset", public=public, update=update, summary=f"Corpus {corpus.stem}"
        )
    say(f"{address}: {_summarise_corpus(str(corpus))}")


def _summarise_corpus(corpus: str) -> str:
    from actors.corpus import load

    documents = load(corpus)
    return f"{corpus}: {len(documents)} documents, digest {documents.digest}"
