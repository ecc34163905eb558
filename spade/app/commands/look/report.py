"""`spade report`: write one page about one or several runs."""

from pathlib import Path
from typing import Annotated

import typer

from spade.app.printing import say

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

    from spade.app.report.arms import group_arms
    from spade.app.report.collect import collect, find_runs
    from spade.app.report.page import compute_share, render
    from spade.app.screen.observe import try_read_status
    from spade.app.screen.verdict import judge_run
    from spade.disk import replace
    from spade.progress import follow

    given = find_runs(runs, MOST_RUNS)
    statuses = [trio.run(try_read_status, each.run) for each in given]
    seen = [
        collect(
            each.run, each.name, status, "" if isinstance(status, str) else judge_run(status).text,
            compute_share(len(runs)),
        )
        for each, status in follow(list(zip(given, statuses, strict=True)), "reading runs")
    ]  # fmt: skip
    found = group_arms([each.name for each in given], [each.arm for each in given], [run.config for run in seen])
    page = render(seen, found, time.time()).encode()
    replace(out, page)
    say(f"{out}: {len(runs)} {'run' if len(runs) == 1 else 'runs'}, {len(page) / 2**20:.1f} MiB")
    for run in seen:
        for note in run.notes:
            say(f"  {run.name}: {note}")
