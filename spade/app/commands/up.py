"""`spade up`, and the `up` of `replay`, `learner` and `actors`: start or resume a run, or a part of it."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spade.app.commands.options import (
    Agents,
    Cluster,
    Config,
    Count,
    For,
    From,
    Headless,
    Memory,
    Rollouts,
    Run,
    RunArgument,
    Set,
    Step,
    Steps,
    command_limits,
)
from spade.app.printing import say
from spade.errors import ConfigError, RunError

if TYPE_CHECKING:
    from spade.app.rundir import RunDir
    from spade.app.supervisor.up import Body
    from spade.config import Config as Resolved
    from spade.config import Limits
    from spade.processes.supervise import Lives


def up(
    config: Config = None,
    run: Run = None,
    from_: From = None,
    step: Step = None,
    memory: Memory = False,
    steps: Steps = None,
    rollouts: Rollouts = None,
    duration: For = None,
    headless: Headless = False,
    agents: Agents = None,
    cluster: Cluster = None,
    set_: Set = None,
) -> None:
    """Start or resume a run: all roles, supervised, in a live view.

    It goes on until Ctrl-C, or until the first limit is reached. --steps, --rollouts and --for bound this command: the
    next command goes on from there. The limits in the config ([limits]) bound the whole run: only a command with a
    larger limit goes on.

    The numbers of actors are those of [actors] in the config. `spade actors scale` changes them until this command
    ends.
    """
    import trio

    from spade.app.screen.observe import evaluated, follow, interactive, narrate, read_status
    from spade.app.screen.reach import reach
    from spade.policy.model_folder import SHIPPED

    limits = command_limits(steps, rollouts, duration)
    overrides = [*(set_ or ()), *([] if agents is None else [f"actors.agents={agents}"])]
    _begin(config, run, overrides, from_, step, memory)
    narrated = headless or not interactive()
    body: Body = partial(narrate, say=say) if narrated else partial(follow, note="Ctrl-C drains and stops")
    with _opened(config, run, overrides, ("replay", "learner"), cluster) as (opened, resolved, corpus, lives):
        if narrated:
            say(f"self-play in {opened.path}")
        finished = _keep_all_up(opened, resolved, corpus, limits, lives, body)
    command = f"`spade up --run {_short(opened.path)}`"
    larger = " with a larger limit" if "(limits." in finished else ""  # else it was a limit of this command
    say(f"{f'finished: {finished}' if finished else 'stopped'}; {command}{larger} goes on from here")
    # A replay service that had to be killed may have left no status.
    if opened.status_path.exists() and (measured := evaluated(trio.run(read_status, reach(opened)))):
        say(measured)
    if resolved.model.path in SHIPPED:
        say(f"`spade nano report {_short(opened.path)}` measures what it has learnt, on programs it never saw")


def _keep_all_up(run: "RunDir", config: "Resolved", corpus: str, limits: "Limits", lives: "Lives", body: "Body") -> str:
    """Keep up every role of a run; returns the limit that has ended it (see `keep_up`)."""
    import trio

    from spade.app.supervisor import launches
    from spade.app.supervisor.up import keep_up

    replay = launches.replay(run, config, corpus, limits)
    services = [replay, launches.learner(run, config), *launches.ranks(run, config)]
    evaluation = config.evaluation
    if evaluation.suite or evaluation.programs or evaluation.diversity_programs:
        services.append(launches.evaluator(run, config))
    actor = partial(launches.actor, run, config, run.replay_address, "")
    return trio.run(partial(keep_up, run, config, launches=services, actor=actor, body=body, lives=lives))


def replay_up(config: Config = None, run: Run = None, set_: Set = None) -> None:
    """Start or resume a run's replay service alone."""
    import trio

    from spade.app.supervisor.launches import replay
    from spade.app.supervisor.up import keep_up

    _begin(config, run, (), None, None, False)
    with _opened(config, run, set_ or (), ("replay",)) as (opened, resolved, corpus, _):
        say(f"replay service of {opened.path} at {opened.replay_address}; Ctrl-C stops it")
        say(f"`spade learner up {_short(opened.path)}` and `spade actors up --connect ADDR` with that address join it")
        trio.run(partial(keep_up, opened, resolved, launches=[replay(opened, resolved, corpus)], lasting=True))
    say("replay service: stopped")


def learner_up(
    run: RunArgument,
    backend: Annotated[str | None, typer.Option(metavar="NAME", help="torch or deepspeed (learner.backend).")] = None,
    nproc: Annotated[int | None, typer.Option(metavar="N", help="Processes, a GPU each (learner.processes).")] = None,
    cluster: Cluster = None,
    set_: Set = None,
) -> None:
    """Start the learner of a run whose replay service is up.

    Ctrl-C writes a checkpoint and stops it. The settings given here are saved in the run's config.
    """
    import trio

    from spade.app.rundir import RunDir
    from spade.app.supervisor.beginning import check_start
    from spade.app.supervisor.launches import learner, ranks
    from spade.app.supervisor.places import places
    from spade.app.supervisor.up import keep_up
    from spade.config import load

    given = {"backend": backend, "processes": nproc}
    overrides = [*(set_ or ()), *(f"learner.{name}={value}" for name, value in given.items() if value is not None)]
    opened = RunDir(run).require()
    resolved = load(str(opened.config_path), tuple(overrides))
    check_start(opened)
    with opened.lock("learner"):
        opened.reopen(resolved)
        say(f"learner of {opened.path}; Ctrl-C checkpoints and stops it")
        with places(cluster, resolved, opened.replay_address, "learner") as place:
            launches, lives = [learner(opened, resolved), *ranks(opened, resolved)], place.lives(opened, resolved)
            finished = trio.run(partial(keep_up, opened, resolved, launches=launches, lives=lives))
    say(f"learner: stopped{finished and f'; the run is finished: {finished}'}")


def actors_up(
    connect: Annotated[str, typer.Option(metavar="ADDR", help="The run's replay service (`replay` in its run.json).")],
    config: Config = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", help="The folder of their logs [default: a new folder under runs/]."),
    ] = None,
    designers: Count = 0,
    curators: Count = 0,
    agents: Agents = None,
    runners: Count = 0,
    engines: Count = 0,
    cluster: Cluster = None,
    set_: Set = None,
) -> None:
    """Add actors to a run that is up. Ctrl-C drains them.

    Several such commands may join one run: the name of an actor carries the pid and the host of its command.
    """
    import trio

    from actors.corpus import load_grounds
    from spade.app.rundir import RunDir
    from spade.app.supervisor.launches import actor, actor_counts
    from spade.app.supervisor.places import places
    from spade.app.supervisor.pools import create
    from spade.app.supervisor.up import keep_up
    from spade.config import load
    from spade.transport.keys import command_tag

    counts = {
        "designers": designers, "curators": curators, "agents": agents or 0, "runners": runners, "engines": engines,
    }  # fmt: skip
    # The learner of the config runs elsewhere, so its GPUs are free here.
    overrides = ["learner.gpus=[]", *(set_ or ()), *(f"actors.{name}={count}" for name, count in counts.items())]
    opened = RunDir(run or Path("runs") / f"actors-{os.uname().nodename}-{os.getpid()}")
    if opened.served:
        raise RunError(f"{opened.path}: is the directory of a run; --run names a folder for the logs of these actors")
    resolved = opened.settle(load(config or "nano", tuple(overrides)))
    if curators and resolved.design.source == "model":
        raise ConfigError("--curators: give the run's pool: --set design.source=pool --set pool.source=folder:DIR")
    if not any(actor_counts(resolved).values()):
        raise ConfigError(f"nothing to start: give at least one of {', '.join(f'--{name}' for name in counts)}")
    corpus = load_grounds(resolved).digest if designers else ""
    with opened.lock("actors"):
        if curators:
            create(opened, resolved)
        else:
            opened.create(resolved)
        say(f"joining {connect}; logs in {opened.logs}; Ctrl-C drains and leaves")
        with places(cluster, resolved, connect) as place:
            launch = partial(actor, opened, resolved, connect, f"-{command_tag(resolved.bus)}")
            joined = partial(keep_up, opened, resolved, actor=launch, address=connect, corpus=corpus)
            finished = trio.run(partial(joined, lives=place.lives(opened, resolved)))
    say(f"actors: stopped{finished and f'; the run is finished: {finished}'}")


def _begin(
    recipe: str | None, path: Path | None, overrides: Sequence[str], old: Path | None, step: str | None, memory: bool
) -> None:
    """Bring policy and memory of the run `old` into a new one, where it is given.

    Raises RunError where it is not, and a command to which it was given has not ended.
    """
    from spade.app.rundir import RunDir
    from spade.app.supervisor.beginning import OldRun, begin, check_begun, parse_step

    if old is None:
        if step is not None or memory:
            raise ConfigError("--step and --memory go with --from RUN")
        check_begun(RunDir(_place(recipe, path)))
        return
    if recipe is None:
        raise ConfigError("--from: name the new run's CONFIG, for example `spade up games-4b-stage2 --from RUN`")
    begin(RunDir(_place(recipe, path)), recipe, overrides, OldRun(RunDir(old), parse_step(step), memory))


def _place(recipe: str | None, path: Path | None) -> Path:
    """The directory of a run."""
    return path or Path("runs") / Path(recipe or "nano").stem


@contextmanager
def _opened(
    recipe: str | None, path: Path | None, overrides: Sequence[str], parts: Sequence[str], cluster: str | None = None
) -> "Iterator[tuple[RunDir, Resolved, str, Lives]]":
    """A run to start or resume, the digest of its corpus, "" where it plays a pool, and where its processes live.

    The parts of the run are held meanwhile, so a command that is refused has changed nothing of a run that another one
    has just started. Its config is written once, with the address at which others look for it. An existing run keeps
    its config unless `recipe` names another. Raises ConfigError where there is no corpus, or nothing of what it is to
    be measured on, RunError where one of them, or the pool, cannot be read.
    """
    from actors.corpus import load_grounds
    from spade.app.rundir import RunDir
    from spade.app.supervisor.beginning import check_start, model_override
    from spade.app.supervisor.places import places
    from spade.app.supervisor.pools import create, programs_for
    from spade.app.supervisor.store_place import settle_store
    from spade.config import load

    run = RunDir(_place(recipe, path))
    name = str(run.config_path) if run.exists and recipe is None else recipe or "nano"
    given = load(name, (*overrides, *model_override(run)))
    if not run.exists:  # a later start has a copy
        programs_for(given)
    corpus = "" if given.design.source == "pool" else load_grounds(given).digest
    config = run.settle(given)  # last, since it may download a model
    _check_model(config)
    check_start(run)
    with places(cluster, config) as place, run.lock(*parts):
        config = place.reached(run, config)
        create(run, config, corpus)
        settle_store(run, config)
        yield run, config, corpus, place.lives(run, config)


def _check_model(config: "Resolved") -> None:
    """Refuse a checkpoint, or a suite that its template cannot play, before anything of a run is made or starts."""
    from actors.suites.held_out import read_held_out
    from spade.policy import model_folder
    from spade.policy.checkpoint_files import check_files

    tokenizer = check_files(model_folder.resolve(config.model.path), thinking=config.model.thinking)
    held_out = read_held_out(config)
    if held_out is not None and held_out.played_by is not None:
        suite, protocol = held_out.played_by
        suite.talks(protocol, tokenizer)


def _short(path: Path) -> Path:
    """A path relative to the working directory, if it lies inside."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
