"""Start or resume a run with `spade up`, or a part of a run with `spade replay up`, `learner up` and `actors up`."""

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
    read_command_limits,
)
from spade.app.printing import say
from spade.errors import ConfigError, RunError
from spade.text import quote

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

    The run goes on until Ctrl-C, or until the first limit is reached. --steps, --rollouts and --for bound this command.
    The next command continues the run. The limits in the config ([limits]) bound the whole run. When a run has reached
    such a limit, only a command that raises this limit continues the run.

    [actors] in the config sets the numbers of actors. `spade actors scale` changes the numbers until this command ends.
    """
    import trio

    from spade.app.screen.observe import describe_evaluated, follow, is_interactive, narrate, read_status
    from spade.app.screen.reach import reach
    from spade.app.supervisor.kept import list_kept_policies
    from spade.policy.model_folder import SHIPPED

    limits = read_command_limits(steps, rollouts, duration)
    overrides = [*(set_ or ()), *([] if agents is None else [f"actors.agents={agents}"])]
    _begin(config, run, overrides, from_, step, memory)
    narrated = headless or not is_interactive()
    with _open_run(config, run, overrides, ("replay", "learner"), cluster) as (opened, resolved, corpus, lives):
        if narrated:
            say(f"self-play in {opened.path}")
        note = "Ctrl-C drains and stops"
        body: Body = partial(narrate, say=say) if narrated else partial(follow, note=note, run=opened)
        finished = _keep_all_up(opened, resolved, corpus, limits, lives, body)
    command = f"`spade up --run {quote(_shorten_path(opened.path))}`"
    larger = " with a larger limit" if "(limits." in finished else ""  # otherwise an option such as --for ended it
    say(f"{f'finished: {finished}' if finished else 'stopped'}; {command}{larger} goes on from here")
    # A replay service that had to be killed may have left no status.
    if opened.status_path.exists() and (measured := describe_evaluated(trio.run(read_status, reach(opened)))):
        say(measured)
    if resolved.model.path in SHIPPED and list_kept_policies(opened):
        report = f"`spade nano report {quote(_shorten_path(opened.path))}`"
        say(f"{report} measures what it has learnt, on programs it never saw")


def _keep_all_up(run: "RunDir", config: "Resolved", corpus: str, limits: "Limits", lives: "Lives", body: "Body") -> str:
    """Keep every role of a run up. Returns the limit that ended the run (see `keep_up`)."""
    import trio

    from spade.app.supervisor import launches
    from spade.app.supervisor.up import keep_up

    replay = launches.make_replay_launch(run, config, corpus, limits)
    services = [replay, launches.make_learner_launch(run, config), *launches.make_rank_launches(run, config)]
    evaluation = config.evaluation
    if evaluation.suite or evaluation.diversity_programs:
        services.append(launches.make_evaluator_launch(run, config))
    services += launches.trackers(run, config)
    actor = partial(launches.make_actor_launch, run, config, run.replay_address, "")
    return trio.run(partial(keep_up, run, config, launches=services, actor=actor, body=body, lives=lives))


def replay_up(config: Config = None, run: Run = None, set_: Set = None) -> None:
    """Start or resume only the replay service of a run."""
    import trio

    from spade.app.supervisor.launches import make_replay_launch
    from spade.app.supervisor.up import keep_up

    _begin(config, run, (), None, None, False)
    with _open_run(config, run, set_ or (), ("replay",)) as (opened, resolved, corpus, _):
        say(f"replay service of {opened.path} at {opened.replay_address}; Ctrl-C stops it")
        say(
            f"`spade learner up {quote(_shorten_path(opened.path))}` and `spade actors up --connect ADDR` "
            f"with that address join it"
        )
        trio.run(
            partial(keep_up, opened, resolved, launches=[make_replay_launch(opened, resolved, corpus)], lasting=True)
        )
    say("replay service: stopped")


def learner_up(
    run: RunArgument,
    backend: Annotated[str | None, typer.Option(metavar="NAME", help="torch or deepspeed (learner.backend).")] = None,
    nproc: Annotated[int | None, typer.Option(metavar="N", help="Processes, a GPU each (learner.processes).")] = None,
    cluster: Cluster = None,
    set_: Set = None,
) -> None:
    """Start the learner of a run. The run's replay service must be up.

    Ctrl-C writes a checkpoint and stops it. The settings given here are saved in the run's config.
    """
    import trio

    from spade.app.rundir import RunDir
    from spade.app.supervisor.beginning import check_start
    from spade.app.supervisor.launches import make_learner_launch, make_rank_launches
    from spade.app.supervisor.places import open_places
    from spade.app.supervisor.up import keep_up
    from spade.config import load

    given = {"backend": backend, "processes": nproc}
    overrides = [*(set_ or ()), *(f"learner.{name}={value}" for name, value in given.items() if value is not None)]
    opened = RunDir(run).require()
    resolved = opened.settle(load(str(opened.config_path), tuple(overrides)))
    check_start(opened)
    with opened.lock("learner"):
        opened.reopen(resolved)
        say(f"learner of {opened.path}; Ctrl-C checkpoints and stops it")
        with open_places(cluster, resolved, opened.replay_address, "learner") as place:
            launches, lives = (
                [make_learner_launch(opened, resolved), *make_rank_launches(opened, resolved)],
                place.lives(opened, resolved),
            )
            finished = trio.run(partial(keep_up, opened, resolved, launches=launches, lives=lives))
    say(f"learner: stopped{finished and f'; the run is finished: {finished}'}")


def actors_up(
    connect: Annotated[str, typer.Option(metavar="ADDR", help="The run's replay service (`replay` in its run.json).")],
    config: Config = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", help="The folder for the actors' logs [default: a new folder under runs/]."),
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

    Several such commands may join one run. The name of an actor contains the pid and the host of its command.
    """
    import trio

    from actors.corpus import load_grounds
    from spade.app.rundir import RunDir
    from spade.app.supervisor.launches import count_actors, make_actor_launch
    from spade.app.supervisor.places import open_places
    from spade.app.supervisor.pools import create
    from spade.app.supervisor.up import keep_up
    from spade.config import load
    from spade.transport.keys import make_command_tag

    if designers and curators:
        raise ConfigError("--designers, --curators: give --curators for a run of a pool, --designers for other runs")
    counts = {"designers": designers or curators, "agents": agents or 0, "runners": runners, "engines": engines}
    # The learner of the config runs elsewhere, so its GPUs are free here.
    overrides = ["learner.gpus=[]", *(set_ or ()), *(f"actors.{name}={count}" for name, count in counts.items())]
    opened = RunDir(run or Path("runs") / f"actors-{os.uname().nodename}-{os.getpid()}")
    if opened.served:
        raise RunError(f"{opened.path}: is the directory of a run; --run names a folder for the logs of these actors")
    resolved = opened.settle(load(config or "nano", tuple(overrides)))
    if curators and resolved.design.source == "model":
        raise ConfigError("--curators: give the run's pool: --set design.source=pool --set pool.source=folder:DIR")
    if designers and resolved.design.source == "pool":
        raise ConfigError("--designers: the run plays a pool; give --curators")
    if not any(count_actors(resolved).values()):
        options = ", ".join(f"--{name}" for name in (*counts, "curators"))
        raise ConfigError(f"nothing to start: give at least one of {options}")
    corpus = load_grounds(resolved).digest if designers else ""
    with opened.lock("actors"):
        if curators:
            create(opened, resolved)
        else:
            opened.create(resolved)
        say(f"joining {connect}; logs in {opened.logs}; Ctrl-C drains and leaves")
        with open_places(cluster, resolved, connect) as place:
            launch = partial(make_actor_launch, opened, resolved, connect, f"-{make_command_tag(resolved.bus)}")
            joined = partial(keep_up, opened, resolved, actor=launch, address=connect, corpus=corpus)
            finished = trio.run(partial(joined, lives=place.lives(opened, resolved)))
    say(f"actors: stopped{finished and f'; the run is finished: {finished}'}")


def _begin(
    recipe: str | None, path: Path | None, overrides: Sequence[str], old: Path | None, step: str | None, memory: bool
) -> None:
    """Begin a new run with the policy and memory of the run `old`, if `--from` named one.

    Raises RunError if `--from` is missing but an earlier start of this run with `--from` did not finish.
    """
    from spade.app.rundir import RunDir, choose_run
    from spade.app.supervisor.beginning import OldRun, begin, check_begun, parse_step

    if old is None:
        if step is not None or memory:
            raise ConfigError("--step and --memory go with --from RUN")
        check_begun(RunDir(choose_run(recipe, path)))
        return
    if recipe is None:
        raise ConfigError("--from: name the new run's CONFIG, for example `spade up games-4b-stage2 --from RUN`")
    begin(RunDir(choose_run(recipe, path)), recipe, overrides, OldRun(RunDir(old), parse_step(step), memory))


@contextmanager
def _open_run(
    recipe: str | None, path: Path | None, overrides: Sequence[str], parts: Sequence[str], cluster: str | None = None
) -> "Iterator[tuple[RunDir, Resolved, str, Lives]]":
    """Create or reopen a run. Yields the run, its config, the digest of its corpus ("" for a pool) and its `Lives`.

    The `Lives` start each process on its machine. The block holds the locks of `parts`. The config is
    written under these locks, so a refused command does not change a run that another command has started. An existing
    run keeps its config unless `recipe` names another. Raises ConfigError if the corpus or the evaluation's data are
    missing, RunError if the corpus, these data or the pool cannot be read.
    """
    from actors.corpus import load_grounds
    from spade.app.rundir import RunDir, choose_run
    from spade.app.supervisor.beginning import check_start, make_model_override
    from spade.app.supervisor.places import open_places
    from spade.app.supervisor.pools import check_source, create
    from spade.app.supervisor.store_place import settle_store
    from spade.config import load

    run = RunDir(choose_run(recipe, path))
    name = str(run.config_path) if run.exists and recipe is None else recipe or "nano"
    config = run.settle(load(name, (*overrides, *make_model_override(run))))
    corpus = "" if config.design.source == "pool" else load_grounds(config).digest
    check_source(run, config)
    config = _pin_model(config)
    check_start(run)
    with open_places(cluster, config) as place, run.lock(*parts):
        config = place.reached(run, config)
        create(run, config, corpus)
        settle_store(run, config)
        yield run, config, corpus, place.lives(run, config)


def _pin_model(config: "Resolved") -> "Resolved":
    """Return `config` with a hub model pinned to its commit. Downloads the model if necessary.

    Raises ConfigError or RunError if no run can use the checkpoint, or if its chat template cannot play the suite.
    Call this function before the run is created, so that a refusal leaves nothing behind.
    """
    from actors.suites.held_out import read_held_out
    from spade.config import replace_settings
    from spade.policy import model_folder
    from spade.policy.checkpoint_files import check_checkpoint

    held_out = read_held_out(config)
    config = replace_settings(config, {"model.path": model_folder.pin_path(config.model.path)})
    tokenizer = check_checkpoint(model_folder.resolve(config.model.path), config)
    if held_out is not None and held_out.played_by is not None:
        suite, protocol = held_out.played_by
        suite.chat_formats(protocol, tokenizer)
    return config


def _shorten_path(path: Path) -> Path:
    """Return a path relative to the working directory, if the path lies inside."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
