"""`spade actors` and `spade learner`."""

from pathlib import Path
from typing import Annotated

import typer

from spade.app.commands.options import Agents, Config, RunArgument, Set
from spade.protocol import MOST_ACTORS

Count = Annotated[int, typer.Option(min=0, max=MOST_ACTORS)]

actors = typer.Typer(help="Designers, agents, env-runners and engines.", no_args_is_help=True)
learner = typer.Typer(help="The learner.", no_args_is_help=True)


@actors.command("up")
def actors_up(
    connect: Annotated[str, typer.Option(metavar="ADDR", help="The run's replay service (`replay` in its run.json).")],
    config: Config = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", help="Where their logs go [default: a new directory under runs/]."),
    ] = None,
    designers: Count = 0,
    agents: Agents = None,
    runners: Count = 0,
    engines: Count = 0,
    set_: Set = None,
) -> None:
    """Add actors to a run that is up; Ctrl-C drains them."""
    from spade.app.supervisor.up import run_actors

    counts = {"designers": designers, "agents": agents or 0, "runners": runners, "engines": engines}
    overrides = [*(set_ or ()), *(f"actors.{name}={count}" for name, count in counts.items())]
    run_actors(config, connect, run, tuple(overrides))


@actors.command("scale")
def actors_scale(
    run: RunArgument,
    counts: Annotated[
        list[str], typer.Argument(metavar="ROLE=COUNT", help="agents=8, designers=2, runners=1, engines=1")
    ],
    on: Annotated[
        str | None, typer.Option(metavar="NAME", help="The supervisor meant, where several keep actors (`actors ls`).")
    ] = None,
) -> None:
    """Have so many actors of a role; all others go on. It ends with the `up` that keeps them: a resume starts the
    config's counts again. A number of agents ends `--agents auto`."""
    from spade.app.supervisor.orders import scale

    scale(run, counts, on)


@actors.command("ls")
def actors_ls(run: RunArgument) -> None:
    """List a run's actors and their supervisors, with the counts wanted."""
    from spade.app.supervisor.orders import list_actors

    list_actors(run)


@actors.command("drain")
def actors_drain(run: RunArgument, name: Annotated[str, typer.Argument(help="An actor's name (`actors ls`).")]) -> None:
    """Let one actor finish what it has in hand and leave for good."""
    from spade.app.supervisor.orders import drain

    drain(run, name)


@learner.command("up")
def learner_up(
    run: RunArgument,
    backend: Annotated[str | None, typer.Option(metavar="NAME", help="torch or deepspeed (learner.backend).")] = None,
    nproc: Annotated[
        int | None, typer.Option(metavar="N", help="Processes on this machine, a GPU each (learner.processes).")
    ] = None,
    set_: Set = None,
) -> None:
    """Start the learner of a run whose replay service is up.

    Ctrl-C checkpoints and stops it. What is set here stays the run's setting.
    """
    from spade.app.supervisor.up import run_learner

    given = {"backend": backend, "processes": nproc}
    overrides = [*(set_ or ()), *(f"learner.{name}={value}" for name, value in given.items() if value is not None)]
    run_learner(run, tuple(overrides))
