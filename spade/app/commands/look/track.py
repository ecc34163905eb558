"""`spade track`: give the figures of a run to another tool."""

from typing import Annotated

import typer

from spade.app.commands.options import RunArgument
from spade.app.printing import say
from spade.errors import RunError
from spade.text import quote


def track(
    run: RunArgument,
    to: Annotated[
        str, typer.Option(metavar="KIND", help="The tool, for example wandb or prometheus:9464 (docs/tracking.md).")
    ],
) -> None:
    """Give the figures of a run to another tool, live or afterwards.

    The command ends when the run is down. If it is given again, it continues after the last record that it sent. A
    prometheus tracker serves until Ctrl-C.
    """
    from functools import partial

    import trio

    from spade.app.rundir import RunDir
    from spade.app.track.sink import SERVING
    from spade.app.track.tracker import follow, tracker
    from spade.config import TrackerChoice

    choice = TrackerChoice.parse("--to", to)
    opened = RunDir(run).require()
    if not opened.metrics_path.exists() and not opened.holders():
        raise RunError(
            f"{opened.path}: has no metrics.jsonl yet; `spade up --run {quote(opened.path)}` goes on with the run"
        )
    with tracker(opened, choice) as tracking:
        say(f"{opened.path}: {tracking.shown}")
        try:
            trio.run(partial(follow, tracking, lambda: choice.kind in SERVING or bool(opened.holders())))
        finally:
            say(f"{tracking.tracked} records tracked, {tracking.position.lines} lines of the journal in all")
