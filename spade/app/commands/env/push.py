"""`spade env push`: publish an exported data set of environments on the Hugging Face hub."""

from pathlib import Path
from typing import Annotated

import typer

from spade.app.commands.options import Public, Repository, Update
from spade.app.printing import say
from spade.text import as_line

FILES = ("README.md", "train.parquet")
"""The files of a data set that `spade env export` writes."""


def push(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of `spade env export --format hub`.")],
    repository: Repository,
    public: Public = False,
    update: Update = False,
) -> None:
    """Publish a data set of environments on the Hugging Face hub.

    A new repository is private without --public. Reads and checks every row before anything is
    published. `spade pool import hub:REPO` makes a pool of the repository.
    """
    from spade.app.models.push import check_name, push_folder
    from spade.app.pools.tables import read_table
    from spade.errors import RunError

    check_name(repository)
    if not all((folder / name).is_file() for name in FILES):
        raise RunError(f"{folder}: is no data set with a card; `spade env export RUN DIR --format hub` writes one")
    if others := sorted(file.name for file in folder.iterdir() if file.name not in FILES or file.is_symlink()):
        other, files = as_line(others[0], 80), " and ".join(FILES)
        raise RunError(f"{folder}: has {other} beside {files}; a push publishes only these two, move {other} away")
    count = len(read_table(str(folder)))
    place = push_folder(
        folder, repository, "dataset", public=public, update=update, summary=f"{count} environments of a SPADE run"
    )
    say(f"{place}: {count} environments of {folder}")
