"""`spade report`: write one page about one or several runs."""

from pathlib import Path
from typing import Annotated

import typer

from spade.app.printing import say
from spade.errors import ConfigError

MOST_RUNS = 200


def report(
    runs: Annotated[
        list[str], typer.Argument(metavar="[ARM=]RUN…", help="Run directories, each perhaps with the name of its arm.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The page to write.")] = Path("report.html"),
) -> None:
    """Write one HTML page about runs.

    The page has curves, the curriculum, environments, rejected programs, and the health of each run.

    Runs of one ARM are shown as their mean with its 95 % interval. Without ARM, runs with the same settings form an
    arm. The page is one file that needs no network. The runs may be up.
    """
    import time

    import trio

    from spade.app.report.arms import group_arms, parse_asked, run_names
    from spade.app.report.collect import collect
    from spade.app.report.page import compute_share, render
    from spade.app.rundir import RunDir
    from spade.app.screen.observe import try_read_status
    from spade.app.screen.verdict import judge_run
    from spade.disk import replace
    from spade.progress import follow

    if len(runs) > MOST_RUNS:
        raise ConfigError(f"{len(runs)} runs are too many for one page; give at most {MOST_RUNS}")
    words = [parse_asked(word) for word in runs]
    folders = [RunDir(word.path).require() for word in words]
    names = run_names([folder.path for folder in folders])
    statuses = [trio.run(try_read_status, folder) for folder in folders]
    seen = [
        collect(
            folder, name, status, "" if isinstance(status, str) else judge_run(status).text, compute_share(len(runs))
        )
        for folder, name, status in follow(list(zip(folders, names, statuses, strict=True)), "reading runs")
    ]
    found = group_arms(names, [word.arm for word in words], [run.config for run in seen])
    page = render(seen, found, time.time()).encode()
    replace(out, page)
    say(f"{out}: {len(runs)} {'run' if len(runs) == 1 else 'runs'}, {len(page) / 2**20:.1f} MiB")
    for run in seen:
        for note in run.notes:
            say(f"  {run.name}: {note}")
