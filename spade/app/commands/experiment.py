"""`spade experiment`: run a grid of recipes and seeds, and show the results."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spade.app.printing import say, show
from spade.text import quote

if TYPE_CHECKING:
    from spade.app.experiment.plan import Experiment

File = Annotated[Path, typer.Argument(metavar="FILE", help="The experiment, such as configs/experiments/nano.toml.")]
Results = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The folder of the results, a small file for each run [default: OUT/results]."),
]


def run(
    file: File,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="DIR", help="The folder of the runs [default: runs/experiment-FILE]."),
    ] = None,
    results: Results = None,
    at_once: Annotated[int, typer.Option(min=1, max=64, help="Runs at a time.")] = 1,
) -> None:
    """Make the missing runs of an experiment. Then make its table and its page.

    The same command continues after a stop or a kill. Runs that were made earlier or on other machines count too, if
    their files are in the folder of the results. Exit code 1 if a run failed.
    """
    import trio

    from spade.app.experiment.analysis import list_missing
    from spade.app.experiment.folder import ExperimentFolder, collect_origins, hold_origins
    from spade.app.experiment.grid import Grid
    from spade.app.experiment.plan import read_experiment
    from spade.app.experiment.results import read_results, refuse_others
    from spade.app.rundir import RunDir
    from spade.disk import refuse_unprintable
    from spade.errors import RunError
    from spade.locks import hold_lock

    experiment = read_experiment(file)
    folder = (out or Path("runs") / f"experiment-{file.stem}").absolute()
    kept = results or folder / "results"
    if RunDir(folder).exists:
        raise RunError(f"{folder}: is a run, so it cannot hold the runs of an experiment; choose another --out")
    refuse_unprintable(folder, "choose another --out")
    for each in (folder, kept):
        each.mkdir(parents=True, exist_ok=True)
    if not os.access(kept, os.W_OK):
        raise RunError(f"{kept}: cannot be written; choose another --results")
    whole = True
    with hold_lock(folder / ".lock", lambda other: f"{folder}: another command makes these runs ({other})"):
        found = read_results(kept, experiment)
        if list_missing(experiment, found):
            origins = collect_origins(experiment)
            refuse_others(kept, found, origins)
            hold_origins(folder, origins)
            whole = trio.run(Grid(ExperimentFolder(experiment, folder, origins), found, kept, say).work, at_once)
    _tell(file.stem, experiment, kept, folder / "experiment.html")
    if not whole:
        raise typer.Exit(1)


def table(
    file: File,
    results: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the results.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The page to write.")] = Path(
        "experiment.html"
    ),
) -> None:
    """Make the table and the page of an experiment from the results so far."""
    from spade.app.experiment.plan import read_experiment
    from spade.errors import RunError

    experiment = read_experiment(file)
    if not results.is_dir():
        raise RunError(f"{results}: there is no such folder; `spade experiment run {quote(file)}` makes results")
    _tell(file.stem, experiment, results, out)


def _tell(name: str, experiment: "Experiment", results: Path, page: Path) -> None:
    import time

    from spade.app.experiment.page import render
    from spade.app.experiment.results import read_results
    from spade.app.experiment.table import describe_state, make_tables
    from spade.disk import replace

    found = read_results(results, experiment)
    made = make_tables(experiment, found)
    for each in made:
        show(f"{each}\n")
    if made:
        replace(page, render(name, experiment, found, time.time()).encode())
        say(f"{page}: the page of {name}")
    say(describe_state(experiment, found))
