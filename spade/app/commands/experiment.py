"""`spade experiment`: a grid of recipes and seeds, and what it came to."""

from pathlib import Path
from typing import Annotated

import typer

from spade.app.printing import say, show

File = Annotated[Path, typer.Argument(metavar="FILE", help="The experiment, such as configs/experiments/nano.toml.")]
Results = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The folder of the results, a small file a run [default: OUT/results]."),
]


def run(
    file: File,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="The folder of its runs [default: runs/FILE].")
    ] = None,
    results: Results = None,
    at_once: Annotated[int, typer.Option(min=1, max=64, help="Runs at a time.")] = 1,
) -> None:
    """Make the missing runs of an experiment. Then make its table and its page.

    The same command goes on where it was stopped or killed. Runs of other days and machines count as well, if their
    files are among the results. Exit code 1 if a run failed.
    """
    import trio

    from spade.app.experiment.analysis import missing
    from spade.app.experiment.grid import Grid
    from spade.app.experiment.pieces import Workplace, origins
    from spade.app.experiment.plan import read_experiment
    from spade.app.experiment.results import read_results, refuse_others
    from spade.locks import locked

    experiment = read_experiment(file)
    folder = (out or Path("runs") / file.stem).absolute()
    kept = results or folder / "results"
    folder.mkdir(parents=True, exist_ok=True)
    whole = True
    with locked(folder / ".lock", lambda other: f"{folder}: another command makes these runs ({other})"):
        found = read_results(kept, experiment)
        if missing(experiment, found):
            here = origins(experiment)
            refuse_others(kept, found, here)
            whole = trio.run(Grid(Workplace(experiment, folder, here), found, kept, say).work, at_once)
    _tell(file, kept, folder / "experiment.html")
    if not whole:
        raise typer.Exit(1)


def table(
    file: File,
    results: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the results.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The page to write.")] = Path(
        "experiment.html"
    ),
) -> None:
    """Make the table and the page of an experiment. They have the results that there are."""
    _tell(file, results, out)


def _tell(file: Path, results: Path, page: Path) -> None:
    import time

    from spade.app.experiment.page import render
    from spade.app.experiment.plan import read_experiment
    from spade.app.experiment.results import read_results
    from spade.app.experiment.table import state, tables
    from spade.disk import replace

    experiment = read_experiment(file)
    found = read_results(results, experiment)
    made = tables(experiment, found)
    for each in made:
        show(f"{each}\n")
    if made:
        replace(page, render(file.stem, experiment, found, time.time()).encode())
        say(f"{page}: its page")
    say(state(experiment, found))
