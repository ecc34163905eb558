"""Connections to all live services of one role, as the replay service names them.

The replay service lists the live services in its `Pulse` messages. A pool connects to services that appear there and
drops services that are gone. Calls to a dropped service fail with `LostError` immediately, and not at their deadline. A
service that restarts at its address keeps its connection. A service that answers although no pulse names it keeps its
connection for bus.silence_s, because a replay service that has restarted may not know the service yet.
"""

import hashlib
import logging
import math
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import trio

from spade.config import Bus
from spade.errors import BusError, SuspectError
from spade.protocol import Hello, Peer, Pulse, Reply, Request, Role
from spade.transport import Client, connect
from spade.waits import Waits

log = logging.getLogger(__name__)

_UNEVEN = 1.25  # a service chosen by `near` may have at most this many times the mean number of holders


MOST_CRASHES = 2  # after this many services crashed while they served a request, no further service is asked


class LostError(BusError):
    """The service went away while it was needed, or no service is live.

    `name` and `life` identify the service that had the request. A life is one run of a service's process, from its
    start to its end. `life` is "" if no service had the request, or if the service left in order.
    """

    def __init__(self, text: str, name: str = "", life: str = "") -> None:
        super().__init__(text)
        self.name = name
        self.life = life


def rank(name: str, near: str) -> bytes:
    """Return a sort key for services. The service with the least key is the nearest to `near`.

    All processes get the same order (rendezvous hashing, Thaler & Ravishankar 1998).
    """
    return hashlib.blake2b(name.encode(), key=near.encode()[:64], digest_size=8).digest()


class PooledService:
    """One live service. `users` counts its present holders."""

    def __init__(self, peer: Peer, waits: Waits) -> None:
        self.peer = peer
        self._waits = waits
        self.users = 0
        self.unnamed_since: float | None = None
        self.scope = trio.CancelScope()
        self._client: Client | None = None
        self._calls: set[trio.CancelScope] = set()

    @property
    def connected(self) -> bool:
        """Return True once the service has answered our hello, until it is dropped."""
        return self._client is not None

    @property
    def answers(self) -> bool:
        """Return True while the service is connected and not silent."""
        return self._client is not None and self._client.live

    @property
    def doubtful(self) -> bool:
        """Return True if the service does not answer at present, or if the newest pulse does not name it."""
        return not self.answers or self.unnamed_since is not None

    @property
    def life(self) -> str:
        """Return the id of the present run of the service's process (its life). Each restart has another id.

        Returns "" if the service is not connected, or if it left in order.
        """
        return self._client.life if self._client is not None else ""

    async def call(self, request: Request[Reply], deadline_s: float) -> Reply:
        """Ask and wait.

        Raises LostError if the service is gone, SuspectError if it crashed, and BusError for other failures. If the
        service was only out of reach for a while, it is asked again.
        """
        client = self._client
        if client is None:
            raise LostError(f"{self.peer.name} is gone")
        sent = client.live
        with trio.CancelScope() as scope:
            self._calls.add(scope)
            try:
                with self._waits.on(self.peer.name, type(request).__name__):
                    return await client.call(request, deadline_s, once=True)
            finally:
                self._calls.discard(scope)
        raise LostError(f"{self.peer.name} is gone", self.peer.name, client.life if sent else "")

    async def live(self, hello: Hello, bus: Bus, connected: Callable[[], None]) -> None:
        """Keep the connection open until `scope` is cancelled. Then all running calls fail with LostError."""
        with self.scope:
            async with connect(self.peer.address, hello, bus=bus) as self._client:
                connected()
                try:
                    await trio.sleep_forever()
                finally:
                    self._client = None
                    for call in self._calls:
                        call.cancel()


class Pool:
    """The live services of one role. `asked_again` counts requests that went to another service after a loss."""

    def __init__(self, role: Role, replay: Client, hello: Hello, bus: Bus) -> None:
        self.role = role
        self._replay = replay
        self._hello = hello
        self._bus = bus
        self._services: dict[Peer, PooledService] = {}
        self._changed = trio.Event()
        self.asked_again = 0

    @property
    def connected(self) -> list[PooledService]:
        """Return the live services."""
        return [service for service in self._services.values() if service.connected]

    @property
    def answering(self) -> bool:
        """Return True while any service answers."""
        return any(service.answers for service in self._services.values())

    @contextmanager
    def hold(self, near: str = "") -> Iterator[PooledService]:
        """Hold the live service with the fewest holders during the block. Raises LostError without a live service.

        Callers with the same `near` get the same service, as long as it has at most 1.25 times the mean number of
        holders. Further callers get the next service (the bounded loads of Mirrokni, Thorup & Zadimoghaddam 2018).
        """
        live = self.connected
        if not live:
            raise LostError(f"no live {self.role} is known")
        service = min(live, key=lambda each: (each.doubtful, each.users))
        if near:
            most = math.ceil(_UNEVEN * (1 + sum(each.users for each in live)) / len(live))
            free = [each for each in live if each.users < most and not each.doubtful]
            service = min(free, key=lambda each: rank(each.peer.name, near), default=service)
        service.users += 1
        try:
            yield service
        finally:
            service.users -= 1

    async def call(self, request: Request[Reply], deadline_s: float, near: str = "") -> Reply:
        """Ask the service that `hold` would choose. If it is lost, ask another service. Wait while no service is live.

        This is for requests that any service of the role can answer. Raises LostError if no service could answer in
        time, SuspectError if two services crashed, or met an unforeseen error, while they served this request, and
        BusError for other failures.
        """
        name, until = type(request).__name__, trio.current_time() + deadline_s
        crashes = 0
        lost: list[LostError] = []
        why: BusError
        while await self.available(until - trio.current_time()):
            try:
                with self.hold(near) as service:
                    return await service.call(request, until - trio.current_time())
            except SuspectError as error:
                crashes, why = crashes + 1, error
            except LostError as error:
                lost, why = [*lost, error] if error.life else lost, error
            log.info("%s goes to another service: %s", name, why)
            self.asked_again += 1
            # Before asking a third service, find out which of the lost services have crashed.
            if crashes + len(lost) >= MOST_CRASHES:
                # A service that never comes back must not use up the time of the call before other services are asked.
                within_s = min(until - trio.current_time(), self._bus.call_deadline_s)
                crashes += sum([await self.ended(each, within_s) for each in lost])
                lost = []
            if crashes >= MOST_CRASHES:
                raise SuspectError(f"an {self.role} crashed or failed {crashes} times while it served {name}: {why}")
        raise LostError(f"no live {self.role} within {deadline_s:g} s")

    async def ended(self, lost: LostError, within_s: float) -> bool:
        """Wait up to `within_s` for a lost service to come back. Return True if it was restarted, as after a crash."""
        if not lost.life:
            return False
        with trio.move_on_after(max(within_s, 0.0)):
            while True:
                for service in self._services.values():
                    if service.peer.name == lost.name and service.life:
                        return service.life != lost.life
                await self._changed.wait()
        return False

    async def available(self, within_s: float) -> bool:
        """Wait for a live service. Returns False if none comes within `within_s`."""
        with trio.move_on_after(max(within_s, 0.0)), self._replay.waits.on(self.role, "to connect"):
            while not self.connected:
                await self._changed.wait()
            return True
        return False

    async def _follow(self) -> None:
        """Keep one connection for each service that the pulses name."""
        pulse = self._replay.pulse
        async with trio.open_nursery() as nursery:
            while True:
                for service in self._reconcile(pulse):
                    nursery.start_soon(self._attend, service)
                pulse = await self._replay.wait_pulse()

    def _reconcile(self, pulse: Pulse) -> list[PooledService]:
        """Drop the services that the pulse does not name, but keep those that still answer for bus.silence_s.

        Returns the new services.
        """
        named = {peer for peer in pulse.peers if peer.role == self.role}
        for peer in self._services.keys() & named:
            self._services[peer].unnamed_since = None
        for peer in self._services.keys() - named:
            service, now = self._services[peer], trio.current_time()
            if service.unnamed_since is None:
                service.unnamed_since = now
            if not service.answers or now - service.unnamed_since > self._bus.silence_s:
                del self._services[peer]
                service.scope.cancel()
        new = [
            PooledService(peer, self._replay.waits)
            for peer in sorted(named - self._services.keys(), key=lambda each: each.name)
        ]
        self._services.update({service.peer: service for service in new})
        return new

    async def _attend(self, service: PooledService) -> None:
        try:
            await service.live(self._hello, self._bus, self._wake)
        except BusError as error:
            # The service is announced but out of reach. Try again as long as pulses name it.
            log.warning("%s: %s", service.peer.name, error)
        finally:
            if self._services.get(service.peer) is service:
                del self._services[service.peer]

    def _wake(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()


@asynccontextmanager
async def open_pool(role: Role, replay: Client, hello: Hello, *, bus: Bus) -> AsyncIterator[Pool]:
    """Open a pool that follows the pulses of `replay` during the block."""
    pool = Pool(role, replay, hello, bus)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool._follow)
        yield pool
        nursery.cancel_scope.cancel()
