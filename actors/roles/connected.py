"""The connections of an actor that leases work: the replay service, other services, an outbox that outlives the work.

An order to leave cancels the work alone, an order to retire lets it run out. What it has to say to the replay service
goes through the outbox, which is emptied over connections that close last.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

import trio

from actors.roles.pool import Pool, open_pool
from replay.client import ReplayClient
from spade.config import Config
from spade.errors import RefusedError
from spade.processes.entry import RETIRE, Launch, joined
from spade.protocol import Role

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Connected:
    """`pools` by the role of their services; `gauges` travel with the heartbeats."""

    config: Config
    replay: ReplayClient
    pools: Mapping[Role, Pool]
    outbox: trio.Nursery
    retiring: trio.Event

    @property
    def runners(self) -> Pool:
        """The env-runners."""
        return self.pools["env-runner"]

    @property
    def gauges(self) -> dict[str, float]:
        """This process's figures; names in `docs/metrics.md`."""
        return self.replay.client.gauges

    @property
    def parting_s(self) -> float:
        """Time for one farewell, s, so that all of them fit into supervise.drain_s."""
        return self.config.supervise.drain_s / 4

    async def hand_in(self, deliver: Callable[[], Awaitable[None]]) -> None:
        """Wait for `deliver`, a call of the replay service; cancelling the wait does not stop the delivery."""
        arrived = self.send(deliver)
        await arrived.wait()

    def send(self, deliver: Callable[[], Awaitable[None]]) -> trio.Event:
        """Run `deliver` in the outbox, which outlives the work; the event is set when it is done."""
        arrived = trio.Event()
        self.outbox.start_soon(_post, deliver, arrived)
        return arrived

    async def services(self) -> None:
        """Wait for a service of each pool; the log names the missing one."""
        for role, pool in self.pools.items():
            while not await pool.available(self.config.bus.call_deadline_s):
                log.warning("no live %s within %g s; waiting on", role, self.config.bus.call_deadline_s)


async def attend(
    launch: Launch,
    config: Config,
    services: tuple[Role, ...],
    lease_s: float,
    ready: Callable[[], None],
    work: Callable[[Connected], Awaitable[None]],
    corpus: str = "",
) -> None:
    """Connect to the replay service and these `services`, be ready, and work until told to leave.

    `lease_s` is how long the replay service may be away, `corpus` the digest of the documents to design from.
    """
    working, retiring = trio.CancelScope(), trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_pass_on, working)
        await nursery.start(_retire_on_signal, retiring)
        with trio.CancelScope() as connections:
            async with joined(launch, config, corpus=corpus) as client, AsyncExitStack() as stack:
                pools = {
                    role: await stack.enter_async_context(open_pool(role, client, client.hello, bus=config.bus))
                    for role in services
                }
                connections.shield = True
                async with trio.open_nursery() as outbox:
                    connected = Connected(config, ReplayClient(client, lease_s), pools, outbox, retiring)
                    ready()
                    with working:
                        await work(connected)
                    outbox.cancel_scope.deadline = trio.current_time() + connected.parting_s
        nursery.cancel_scope.cancel()


async def _post(deliver: Callable[[], Awaitable[None]], arrived: trio.Event) -> None:
    try:
        await deliver()
    except RefusedError as error:
        # The replay service has it otherwise by now; nothing that we could do again would change that.
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
