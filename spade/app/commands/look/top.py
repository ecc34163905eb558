"""`spade top`: show the live view of a run, or draw it into a file."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spade.app.commands.options import Keys, LiveRun
from spade.app.printing import say
from spade.disk import replace
from spade.text import as_line

if TYPE_CHECKING:
    from spade.app.screen.reach import ReachedRun

PICTURE = (100, 30)  # columns and lines of a drawn view


def top(
    run: LiveRun,
    keys: Keys = None,
    svg: Annotated[Path | None, typer.Option(help="Draw the view once into this SVG file instead.")] = None,
) -> None:
    """Show the live view of a run until it stops. Ctrl-C leaves the view, and the run goes on."""
    import trio

    from spade.app.screen.reach import reach

    at = reach(run, keys)
    if svg is not None:
        _draw(at, svg)
        return
    trio.run(_watch, at)


async def _watch(at: "ReachedRun") -> None:
    """Show the view until no part of the run is up."""
    import trio

    from spade.app.screen.observe import REFRESH_S, follow, is_interactive, narrate
    from spade.app.screen.reach import connect_observer

    async with connect_observer(at, at.config.bus.call_deadline_s) as client, trio.open_nursery() as nursery:
        if is_interactive():
            nursery.start_soon(follow, client, "Ctrl-C detaches; the run goes on", at.run)
        else:
            nursery.start_soon(narrate, client, say)
        while True:
            await trio.sleep(REFRESH_S)
            if not at.goes_on(client):
                break
        nursery.cancel_scope.cancel()
    say(f"{at.name}: stopped")


def _draw(at: "ReachedRun", svg: Path) -> None:
    """Draw the view of a run, or the last view of a stopped run, into an SVG file."""
    import trio

    from spade.app.screen.console import Screen
    from spade.app.screen.observe import read_status
    from spade.app.screen.view import render

    width, height = PICTURE
    status = trio.run(read_status, at)
    console = Screen(width=width, height=height, record=True, file=io.StringIO(), force_terminal=True)
    console.print(render(status, width, height), height=height)
    replace(svg, console.export_svg(title=as_line(f"spade top {at.name}")).encode())
    say(str(svg))
