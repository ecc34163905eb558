"""The `up` commands: which processes a run is made of, and the supervisor above them."""

import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import trio

from replay.client import ReplayClient
from spade import logs
from spade.app.printing import say
from spade.app.rundir import RunDir
from spade.app.screen.observe import ANSWER_S, evaluated, follow, interactive, narrate, read_status
from spade.app.supervisor.actors import Actors, longest_lease_s
from spade.app.supervisor.autoscale import autoscale
from spade.config import Bus, Config, digest, load
from spade.errors import BusError, ConfigError
from spade.gpus import share
from spade.process import Launch
from spade.protocol import PROTOCOL_VERSION, Hello, Role
from spade.supervise import Supervisor, supervise
from spade.transport import Client, connect
from spade.transport.keys import client_name

REPORT_S = 0.5
SERVERS: frozenset[Role] = frozenset({"engine", "endpoint", "env-runner"})

Body = Callable[[Client], Awaitable[None]]


def run_everything(
    recipe: str | None, path: Path | None, overrides: tuple[str, ...], duration_s: float | None, headless: bool
) -> None:
    """`spade up`."""
    run, config = _open(recipe, path, overrides)
    launches = [_replay(run, config), _learner(run, config)]
    if config.evaluation.programs:
        launches.append(_launch(run, config, "evaluator", "evaluator", run.replay_address))
    actors = partial(_actor, run, config, run.replay_address, "")
    narrated = headless or not interactive()
    body: Body = partial(narrate, say=say) if narrated else partial(follow, note="Ctrl-C drains and stops")
    if narrated:
        say(f"self-play in {run.path}")
    parts = ("replay", "learner")
    trio.run(partial(_supervise, run, config, parts, launches=launches, actor=actors, duration_s=duration_s, body=body))
    say(f"stopped; `spade up --run {_short(run.path)}` goes on from here")
    # Where the replay service had to be killed it may have left none.
    if run.status_path.exists() and (measured := evaluated(trio.run(read_status, run))):
        say(measured)
    if config.model.path == "nano":
        say(f"`spade nano report {_short(run.path)}` measures what it has learnt, on programs it never saw")


def run_replay(recipe: str | None, path: Path | None, overrides: tuple[str, ...]) -> None:
    """`spade replay up`."""
    run, config = _open(recipe, path, overrides)
    say(f"replay service of {run.path} at {run.replay_address}; Ctrl-C stops it")
    say(f"`spade learner up {_short(run.path)}` and `spade actors up --connect ADDR` with that address join it")
    trio.run(partial(_supervise, run, config, ("replay",), launches=[_replay(run, config)]))
    say("replay service: stopped")


def run_learner(path: Path, overrides: tuple[str, ...]) -> None:
    """`spade learner up`; `overrides` become the run's own."""
    run = RunDir(path).require()
    config = load(str(run.config_path), overrides)
    with run.lock("learner"):
        run.create(config)
    say(f"learner of {run.path}; Ctrl-C checkpoints and stops it")
    trio.run(partial(_supervise, run, config, ("learner",), launches=[_learner(run, config)]))
    say("learner: stopped")


def run_actors(recipe: str | None, address: str, path: Path | None, overrides: tuple[str, ...]) -> None:
    """`spade actors up`. Their names carry pid and host, so that many such commands may join one run.

    The learner of the config runs elsewhere, so its GPUs are free here.
    """
    run = RunDir(path or Path("runs") / f"actors-{socket.gethostname()}-{os.getpid()}")
    config = load(recipe or "nano", ("learner.gpus=[]", *overrides))
    if not any(_counts(config).values()):
        raise ConfigError("nothing to start: give at least one of --designers, --agents, --runners, --engines")
    run.create(config)
    say(f"joining {address}; logs in {run.logs}; Ctrl-C drains and leaves")
    actors = partial(_actor, run, config, address, f"-{_tag(config.bus)}")
    trio.run(partial(_supervise, run, config, ("actors",), actor=actors, address=address))
    say("actors: stopped")


def _open(recipe: str | None, path: Path | None, overrides: tuple[str, ...]) -> tuple[RunDir, Config]:
    """A run to start or resume: an existing one keeps its own config unless another is named."""
    run = RunDir(path or Path("runs") / Path(recipe or "nano").stem)
    config = load(str(run.config_path) if run.exists and recipe is None else recipe or "nano", overrides)
    with run.lock("replay"):
        run.create(config)
    return run, config


def _counts(config: Config) -> dict[Role, int]:
    actors = config.actors
    return {
        "engine": actors.engines,
        "endpoint": 1 if config.endpoint.url else 0,
        "env-runner": actors.runners,
        "agent": actors.agents_min if actors.agents == "auto" else actors.agents,
        "designer": actors.designers,
    }


def _replay(run: RunDir, config: Config) -> Launch:
    return _launch(run, config, "replay", "replay", run.replay_address, run.replay_address)


def _learner(run: RunDir, config: Config) -> Launch:
    bind = _free_port(config.bus) or run.socket("learner")
    return _launch(run, config, "learner", "learner", run.replay_address, bind)


def _actor(run: RunDir, config: Config, address: str, tag: str, role: Role, index: int) -> Launch:
    name = f"{role}-{index}"
    bind = _free_port(config.bus) or run.socket(name) if role in SERVERS else None
    return _launch(run, config, name + tag, role, address, bind, index)


def _tag(bus: Bus) -> str:
    """This command among all that joined: its pid and its host, which has the name of its key where it has one."""
    return f"{os.getpid()}@{client_name(Path(bus.keys)) if bus.keys else socket.gethostname()}"


def _free_port(bus: Bus) -> str:
    """Any port of the host that bus.bind names, "" where it names none."""
    return bus.bind and f"{bus.bind.rpartition(':')[0]}:*"


def _launch(
    run: RunDir, config: Config, name: str, role: Role, address: str, bind: str | None = None, index: int = 0
) -> Launch:
    gpus = share(config, role, index)
    return Launch(name, role, str(run.config_path), str(run.path), address, bind, index, gpus)


async def _wait(client: Client) -> None:
    await trio.sleep_forever()


async def _supervise(
    run: RunDir,
    config: Config,
    parts: tuple[str, ...],
    *,
    launches: Sequence[Launch] = (),
    actor: Callable[[Role, int], Launch] | None = None,
    address: str | None = None,
    duration_s: float | None = None,
    body: Body = _wait,
) -> None:
    """Keep `launches` and as many actors as wanted up until a signal, the end of `duration_s` or a failure; then drain.

    parts    of the run that this command alone may keep up
    actor    gives the orders of the how-manieth of a role; None where this command keeps no actors
    address  of the replay service, where it is not the run's own
    body     what is done meanwhile with the connection to the replay service
    """
    with ExitStack() as locks:
        for part in parts:
            locks.enter_context(run.lock(part))
        name = f"supervisor-{_tag(config.bus)}"
        _log(name, run.logs / "supervisor.log")
        async with (
            _signals() as told,
            supervise(config.supervise, run.logs) as supervisor,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(_leave, told, nursery.cancel_scope)
            nursery.cancel_scope.deadline = trio.current_time() + (duration_s or float("inf"))
            for launch in launches:
                if launch.role == "replay":  # first: all others call it
                    await supervisor.add(launch)
            hello = Hello(PROTOCOL_VERSION, digest(config), "supervisor", name, os.getpid())
            async with connect(address or run.replay_address, hello, bus=config.bus) as client:
                actors = None if actor is None else Actors(supervisor, actor, longest_lease_s(config), nursery)
                nursery.start_soon(_report, name, supervisor, actors, client)
                nursery.start_soon(body, client)
                # All at once: an engine is ready only when the learner has published.
                for launch in launches:
                    if launch.role != "replay":
                        nursery.start_soon(supervisor.add, launch)
                if actors is not None:
                    actors.begin(_counts(config))
                    if config.actors.agents == "auto":
                        nursery.start_soon(autoscale, client, actors, config)
                await trio.sleep_forever()


def _log(name: str, path: Path) -> None:
    """All goes to the file; warnings to standard error too, as it is then: the live view takes it over."""
    handlers: list[logging.Handler] = [logs.File(path)]
    logs.begin(name, handlers + ([logging.lastResort] if logging.lastResort else []))


@asynccontextmanager
async def _signals() -> AsyncIterator[trio.Event]:
    """Set by the first signal to leave. Those that come during the drain are taken too, so that none breaks it off."""
    told = trio.Event()

    async def listen(task_status: trio.TaskStatus[None]) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            task_status.started()
            async for _ in signals:
                told.set()

    async with trio.open_nursery() as nursery:
        await nursery.start(listen)
        yield told
        nursery.cancel_scope.cancel()


async def _leave(told: trio.Event, scope: trio.CancelScope) -> None:
    await told.wait()
    scope.cancel()


async def _report(name: str, supervisor: Supervisor, actors: Actors | None, client: Client) -> None:
    """Tell the replay service how our children are, for status and view; hear what to change about them."""
    replay = ReplayClient(client, ANSWER_S)
    while True:
        wanted = None if actors is None else actors.wanted
        # A replay service that restarts misses a report; the next one says the same.
        with suppress(BusError):
            orders = await replay.report_processes(name, supervisor.processes(), wanted)
            if actors is not None:
                actors.obey(orders)
        await trio.sleep(REPORT_S)


def _short(path: Path) -> Path:
    """A path as a person would type it from here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
