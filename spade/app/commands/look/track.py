"""`spade track`: give the figures of a run to another tool."""

from typing import Annotated

import typer

from spade.app.commands.options import RunArgument
from spade.app.printing import say
from spade.errors import ConfigError, RunError
from spade.text import as_line


def track(
    run: RunArgument,
    to: Annotated[str, typer.Option(metavar="KIND", help="The tool, for example wandb (docs/tracking.md).")],
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of prometheus [default: the run's track.port].")
    ] = None,
) -> None:
    """Give the figures of a run to another tool, live or afterwards.

    The command ends when the run is down. The next one goes on from there. A tracker of prometheus serves until Ctrl-C.
    """
    from functools import partial

    import msgspec
    import trio

    from spade.app.rundir import RunDir
    from spade.app.track.sink import SERVING
    from spade.app.track.tracker import follow, tracker
    from spade.config import TRACKER_KINDS

    kind = next((known for known in TRACKER_KINDS if known == to), None)
    if kind is None:
        raise ConfigError(f"--to {as_line(to, 60)!r}: unknown tracker; take one of {', '.join(TRACKER_KINDS)}")
    opened = RunDir(run).require()
    settings = opened.config().track
    if port is not None:
        settings = msgspec.structs.replace(settings, port=port)
    if not opened.metrics_path.exists() and not opened.holders():
        raise RunError(f"{opened.path}: has no metrics.jsonl yet; `spade up --run {opened.path}` goes on with the run")
    with tracker(opened, kind, settings) as tracking:
        say(f"{opened.path}: {tracking.shown}")
        try:
            trio.run(partial(follow, tracking, lambda: kind in SERVING or bool(opened.holders())))
        finally:
            say(f"{tracking.tracked} records tracked, {tracking.position.lines} lines of the journal in all")
