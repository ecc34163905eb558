"""The command line. Nothing heavy is imported before a command needs it, so `spade --help` is instant."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from spade import logs
from spade.app.commands.actors import actors, learner
from spade.app.commands.options import Agents, Config, For, Headless, Json, Run, RunArgument, Set, seconds
from spade.app.groups.replay import keys, replay
from spade.app.groups.things import config, env, model, nano
from spade.app.printing import complain, open_streams
from spade.errors import SpadeError, reason

app = typer.Typer(
    help="Self-play for language models: one policy designs executable environments and learns to play them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for name, group in {
    "actors": actors, "learner": learner, "replay": replay, "config": config, "env": env, "model": model, "nano": nano,
    "keys": keys,
}.items():  # fmt: skip
    app.add_typer(group, name=name)


@app.command()
def up(
    config: Config = None,
    run: Run = None,
    duration: For = None,
    headless: Headless = False,
    agents: Agents = None,
    set_: Set = None,
) -> None:
    """Start or resume a run: all roles, supervised, in a live view.

    Starts as many actors as [actors] in the config says; what `spade actors scale` changed ends with this command.
    """
    from spade.app.supervisor.up import run_everything

    overrides = [*(set_ or ()), *([] if agents is None else [f"actors.agents={agents}"])]
    run_everything(config, run, tuple(overrides), seconds(duration), headless)


@app.command()
def status(run: RunArgument, json: Json = False) -> None:
    """Print a run's status."""
    from spade.app.commands.status import print_status

    print_status(run, json)


@app.command()
def why(run: RunArgument) -> None:
    """Print who waits for whom and for how long, the longest first."""
    from spade.app.commands.why import print_waits

    print_waits(run)


@app.command()
def stop(run: RunArgument) -> None:
    """Drain a run and stop it."""
    from spade.app.commands.status import stop_run

    stop_run(run)


@app.command()
def top(
    run: RunArgument,
    svg: Annotated[Path | None, typer.Option(help="Draw the view once into this SVG file instead.")] = None,
) -> None:
    """Attach the live view to a run; Ctrl-C detaches."""
    from spade.app.commands.status import draw_top, show_top

    if svg is None:
        show_top(run)
    else:
        draw_top(run, svg)


@app.command()
def doctor(run: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="A run directory.")] = None) -> None:
    """Say what this machine can do, and what would make it better; of a run, which errors its services met."""
    from spade.app.commands.doctor import examine

    examine(run)


def main() -> None:
    """The `spade` command: a SpadeError, and a file or address that the system refuses, is one line and exit code 1."""
    open_streams()
    logs.warn_plainly()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # here, where what cannot be written is an error as any other
    except* BrokenPipeError:  # whoever read us has seen enough
        logs.forget_unwritten()
        sys.exit(1)
    except* (SpadeError, OSError) as errors:
        for line in dict.fromkeys(_lines(errors)):
            complain(line)
        logs.forget_unwritten()
        sys.exit(1)
    except* KeyboardInterrupt:
        sys.exit(130)


def _lines(errors: BaseExceptionGroup[SpadeError | OSError]) -> Iterator[str]:
    """Each error in a line; the lines that one was given to be read with it stand below."""
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _lines(error)
            continue
        where = getattr(error, "filename", None)
        place = "" if where is None or isinstance(where, int) else f"{os.fsdecode(where)}: "
        yield f"spade: {place}{reason(error)}"
        yield from (line for note in getattr(error, "__notes__", ()) for line in note.splitlines())


if __name__ == "__main__":
    main()
