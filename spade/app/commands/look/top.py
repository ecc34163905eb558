"""`spade top`: the live view of a run, or a picture of it."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spade.app.commands.options import RunArgument
from spade.app.printing import say
from spade.text import line

if TYPE_CHECKING:
    from spade.app.rundir import RunDir

PICTURE = (100, 30)  # columns and lines of a drawn view


def top(
    run: RunArgument,
    svg: Annotated[Path | None, typer.Option(help="Draw the view once into this SVG file instead.")] = None,
) -> None:
    """Show the live view of a run until it stops. Ctrl-C leaves the view; the run goes on."""
    import trio

    from spade.app.rundir import RunDir

    if svg is not None:
        _draw(run, svg)
        return
    try:
        trio.run(_watch, RunDir(run))
    except* KeyboardInterrupt:
        pass


async def _watch(run: "RunDir") -> None:
    """The view until nothing of the run is up."""
    import trio

    from spade.app.screen.observe import REFRESH_S, follow, interactive, narrate, observer

    async with observer(run) as client, trio.open_nursery() as nursery:
        if interactive():
            nursery.start_soon(follow, client, "Ctrl-C detaches; the run goes on")
        else:
            nursery.start_soon(narrate, client, say)
        while True:
            await trio.sleep(REFRESH_S)
            if not run.holders():
                break
        nursery.cancel_scope.cancel()
    say(f"{run.path}: stopped")


def _draw(run: Path, svg: Path) -> None:
    """The view of a live run, or of a run as it was left, as a picture."""
    import trio

    from spade.app.rundir import RunDir
    from spade.app.screen.console import Screen
    from spade.app.screen.observe import read_status
    from spade.app.screen.view import render

    width, height = PICTURE
    status = trio.run(read_status, RunDir(run))
    console = Screen(width=width, height=height, record=True, file=io.StringIO(), force_terminal=True)
    console.print(render(status, width, height), height=height)
    console.save_svg(str(svg), title=line(f"spade top {run}"))
    say(str(svg))
