"""The connections of an actor that leases work: the replay service, other services, and an outbox.

If the process is told to leave, only the work is cancelled. If it is told to retire, it finishes its present work and
leases no more. Messages to the replay service go through the outbox. The outbox sends them even after the work has
ended, so the connections close last.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

import trio

from actors.links.pool import Pool, open_pool
from replay.client import ReplayClient
from spade.config import Config
from spade.errors import RefusedError
from spade.processes.entry import RETIRE, Launch, connect_to_replay
from spade.protocol import Role

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ActorConnections:
    """The connections of an actor."""

    config: Config
    replay: ReplayClient
    pools: Mapping[Role, Pool]
    """The pools of services, by role."""
    outbox: trio.Nursery
    """The outbox. It sends messages even after the work has ended."""
    retiring: trio.Event
    """Set when the process should retire."""

    @property
    def runners(self) -> Pool:
        """Return the env-runners."""
        return self.pools["env-runner"]

    @property
    def gauges(self) -> dict[str, float]:
        """Return this process's figures, which travel with the heartbeats. `docs/metrics.md` defines their names."""
        return self.replay.client.gauges

    @property
    def parting_s(self) -> float:
        """Return the seconds for one farewell message. All farewells together fit into supervise.drain_s."""
        return self.config.supervise.drain_s / 4

    async def hand_in(self, deliver: Callable[[], Awaitable[None]]) -> None:
        """Wait for `deliver`, a call of the replay service. Cancelling the wait does not stop the delivery."""
        arrived = self.send(deliver)
        await arrived.wait()

    def send(self, deliver: Callable[[], Awaitable[None]]) -> trio.Event:
        """Run `deliver` in the outbox, which outlives the work. Return an event that is set after the delivery."""
        arrived = trio.Event()
        self.outbox.start_soon(_deliver_until_arrived, deliver, arrived)
        return arrived

    async def services(self) -> None:
        """Wait until each pool has a live service. Log the role of a missing service."""
        for role, pool in self.pools.items():
            while not await pool.available(self.config.bus.call_deadline_s):
                log.warning("no live %s within %g s; still waiting", role, self.config.bus.call_deadline_s)


async def attend(
    launch: Launch,
    config: Config,
    services: tuple[Role, ...],
    lease_s: float,
    ready: Callable[[], None],
    work: Callable[[ActorConnections], Awaitable[None]],
    corpus: str = "",
) -> None:
    """Connect to the replay service and these `services`, report ready, and work until the process is told to leave.

    The replay service may be away for `lease_s`. `corpus` is the digest of the documents to design from.
    """
    working, retiring = trio.CancelScope(), trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_pass_on, working)
        await nursery.start(_retire_on_signal, retiring)
        with trio.CancelScope() as connections:
            async with connect_to_replay(launch, config, corpus=corpus) as client, AsyncExitStack() as stack:
                pools = {
                    role: await stack.enter_async_context(open_pool(role, client, client.hello, bus=config.bus))
                    for role in services
                }
                connections.shield = True
                async with trio.open_nursery() as outbox:
                    connected = ActorConnections(config, ReplayClient(client, lease_s), pools, outbox, retiring)
                    ready()
                    with working:
                        await work(connected)
                    outbox.cancel_scope.deadline = trio.current_time() + connected.parting_s
        nursery.cancel_scope.cancel()


async def _deliver_until_arrived(deliver: Callable[[], Awaitable[None]], arrived: trio.Event) -> None:
    try:
        await deliver()
    except RefusedError as error:
        # The replay service has closed this work in another way. Sending the message again would not help.
        log.warning("%s", error)
    arrived.set()


async def _retire_on_signal(retiring: trio.Event, task_status: trio.TaskStatus[None]) -> None:
    with trio.open_signal_receiver(RETIRE) as signals:
        task_status.started()
        async for _ in signals:
            log.info("retiring: nothing more is leased")
            retiring.set()


async def _pass_on(working: trio.CancelScope) -> None:
    """Cancel the work when the process is cancelled."""
    try:
        await trio.sleep_forever()
    finally:
        working.cancel()
