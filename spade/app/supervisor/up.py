"""The supervisor of an `up` command: keeps processes up, reports them to the replay service, and obeys orders."""

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import trio

from replay.client import ReplayClient
from spade.app.rundir import RunDir
from spade.app.screen.reach import ANSWER_S
from spade.app.supervisor.actors import Actors, compute_longest_lease_s
from spade.app.supervisor.autoscale import autoscale
from spade.app.supervisor.launches import MODULES, count_actors
from spade.config import Config, compute_digest
from spade.errors import BusError
from spade.processes import logs
from spade.processes.child import Life
from spade.processes.ending import list_ending_signals, note_signal
from spade.processes.entry import Launch
from spade.processes.supervise import Lives, Supervisor, supervise
from spade.protocol import PROTOCOL_VERSION, Hello, Role
from spade.text import quote
from spade.transport import Client, connect
from spade.transport.keys import make_command_tag

REPORT_S = 0.5
UNANSWERED_S = 1.0  # seconds until a person is told that no replay service answers

Body = Callable[[Client], Awaitable[None]]

log = logging.getLogger(__name__)


async def _wait(client: Client) -> None:
    await trio.sleep_forever()


async def keep_up(
    run: RunDir,
    config: Config,
    *,
    launches: Sequence[Launch] = (),
    actor: Callable[[Role, int], Launch] | None = None,
    address: str | None = None,
    corpus: str = "",
    body: Body = _wait,
    lasting: bool = False,
    lives: Lives = Life,
) -> str:
    """Keep `launches` and the wanted actors up until a signal, the end of the run or a failure. Then drain.

    The caller must hold the locks of the run's parts that it starts, since before it wrote the config. Returns the
    limit that ended the run, in words, or "" if a signal came first. If the run is already at its end, only the replay
    service starts. The end of `body` also ends the command.

    * actor: makes an actor's launch from its role and 0-based index; None if this command keeps no actors
    * address: the replay service's address; None for the run's own
    * corpus: digest of the designers' documents; a run with other documents refuses this command
    * body: runs while the processes are up, with the connection to the replay service
    * lasting: True to keep the processes up after the end of the run
    * lives: starts each process, here or on a machine of a cluster
    """
    finished = ""
    name = f"supervisor-{make_command_tag(config.bus)}"
    _log(name, run.logs / "supervisor.log")
    async with (
        _catch_signals() as signalled,
        supervise(config.supervise, run.logs, MODULES, lives) as supervisor,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(_leave, signalled, nursery.cancel_scope)
        for launch in launches:
            if launch.role == "replay":  # start the replay service first, because all others call it
                await supervisor.add(launch)
        hello = Hello(PROTOCOL_VERSION, compute_digest(config), "supervisor", name, os.getpid(), corpus=corpus)
        unanswered = trio.CancelScope()
        nursery.start_soon(_tell_unanswered, run, address, config.bus.call_deadline_s, unanswered)
        async with connect(address or run.replay_address, hello, bus=config.bus) as client:
            unanswered.cancel()
            if lasting or not client.pulse.finished:
                supervisor.number = await ReplayClient(client, config.bus.call_deadline_s).enroll()
                actors = None if actor is None else Actors(supervisor, actor, compute_longest_lease_s(config), nursery)
                nursery.start_soon(_report, name, supervisor, actors, client, signalled.set)
                nursery.start_soon(_run_until_done, body, client, nursery.cancel_scope)
                # Start all together: an engine is ready only after the learner has published.
                for launch in launches:
                    if launch.role != "replay":
                        nursery.start_soon(supervisor.add, launch)
                if actors is not None:
                    actors.begin(count_actors(config))
                    nursery.start_soon(autoscale, client, actors, config)
            finished = await _wait_until_finished(client, lasting)
            nursery.cancel_scope.cancel()
    return finished


async def _tell_unanswered(run: RunDir, address: str | None, limit_s: float, scope: trio.CancelScope) -> None:
    """Warn if nothing answers within UNANSWERED_S. `connect` goes on waiting, because a service may still start."""
    with scope:
        await trio.sleep(UNANSWERED_S)
        if address is None:
            advice = (
                f"{run.path}: no answer yet; if nothing is up, `spade replay up --run {quote(run.path)}` starts the run"
            )
        else:
            advice = f"{address}: no answer yet; is the run up, and is this the `replay` in its run.json?"
        log.warning("%s (waiting up to %g s)", advice, limit_s)


async def _wait_until_finished(client: Client, lasting: bool) -> str:
    """Wait for the end of the run, or forever if the command is `lasting`. Return the limit that ended the run."""
    while lasting or not client.pulse.finished:
        await client.wait_pulse()
    return client.pulse.finished


async def _run_until_done(body: Body, client: Client, scope: trio.CancelScope) -> None:
    await body(client)
    scope.cancel()


def _log(name: str, path: Path) -> None:
    """Log to the file. Warnings also go to standard error as it is now, before the live view replaces it."""
    handlers: list[logging.Handler] = [logs.File(path)]
    logs.begin(name, handlers + ([logging.lastResort] if logging.lastResort else []))


@asynccontextmanager
async def _catch_signals() -> AsyncIterator[trio.Event]:
    """Yield an event that the first signal sets. Further signals are also caught, so that none interrupts the drain."""
    signalled = trio.Event()

    async def listen(task_status: trio.TaskStatus[None]) -> None:
        with trio.open_signal_receiver(*list_ending_signals()) as signals:
            task_status.started()
            async for number in signals:
                note_signal(number)
                signalled.set()

    async with trio.open_nursery() as nursery:
        await nursery.start(listen)
        yield signalled
        nursery.cancel_scope.cancel()


async def _leave(signalled: trio.Event, scope: trio.CancelScope) -> None:
    await signalled.wait()
    scope.cancel()


async def _report(
    name: str, supervisor: Supervisor, actors: Actors | None, client: Client, leave: Callable[[], None]
) -> None:
    """Report our children to the replay service, and carry out the orders that it returns."""
    replay = ReplayClient(client, ANSWER_S)
    while True:
        wanted = None if actors is None else actors.wanted
        # A restarting replay service misses a report. The next report says the same.
        with suppress(BusError):
            orders = await replay.report_processes(name, supervisor.processes(), wanted)
            if orders.stop:
                log.info("ordered to stop")
                leave()
            elif actors is not None:
                actors.obey(orders)
        await trio.sleep(REPORT_S)
