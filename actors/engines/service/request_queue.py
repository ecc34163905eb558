"""The link between the bus and an engine's thread: it accepts requests, decides which begins next, and sends answers.

The engine runs in a thread of its own (`thread`). It takes its orders from a queue, and returns results by calling
functions in trio's thread. The queue stays short, because only `_MOST_OPEN` requests are accepted at once.
"""

import itertools
import queue
from dataclasses import dataclass
from functools import partial

import msgspec
import trio
from trio.lowlevel import current_trio_token

from actors.engines.base import Engine, Results
from actors.engines.service.role_shares import RoleShares
from actors.engines.service.thread import Cancel, Order, Stop, Submit, work
from actors.engines.weights.follower import Follower
from actors.engines.weights.swap import CheckedWeights, compute_tolerance
from actors.links.faults import RequestFaults
from spade.config import Config
from spade.protocol import Done, Generate, Generated, GiveUp, Overdue, Refused, Weights
from spade.transport import Client, IncomingRequest, Server

_MOST_OPEN = 4_096  # requests accepted at once; further requests wait in the socket


@dataclass
class PendingRequest:
    """A request that was accepted and is not answered yet. Times are in seconds on trio's clock."""

    incoming: IncomingRequest
    """The message and its sender."""

    request: Generate
    """The decoded message."""

    since: float
    """When the request arrived."""

    began: float | None = None
    """When the engine was given the request. None until then."""

    def overdue(self, now: float) -> Overdue | None:
        """Return the answer to a request past its deadline, or None before the deadline."""
        if not 0 < self.request.deadline_s < now - self.since:
            return None
        began = now if self.began is None else self.began
        return Overdue(began - self.since, now - began)


class RequestQueue:
    """The requests of all senders. Gives the engine as many as fit its rows. Used only in trio's thread.

    `follower` keeps the engine on the newest published weights. If `follower` is None, the engine has its own weights.
    """

    def __init__(
        self, server: Server, replay: Client, engine: Engine, config: Config, follower: Follower | None = None
    ) -> None:
        self._server = server
        self._replay = replay
        self._engine = engine
        self._beat_s = config.bus.heartbeat_s
        self._room = trio.Semaphore(_MOST_OPEN)
        # `_room` bounds this queue: each accepted request adds at most one Submit and one Cancel. Orders to load
        # weights are few.
        self._orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._shares = RoleShares(config.engine.rows)
        self._open: dict[int, PendingRequest] = {}
        self._queued_s: list[float] = []  # waiting times of requests that began since the last heartbeat
        self._overdue = 0
        self._faults = RequestFaults()
        self._numbers: dict[tuple[bytes, int], int] = {}
        self._count = itertools.count(1)
        self._follower = follower
        self._waits = config.engine.swap == "wait"
        self._newer: Weights | None = None  # weights to be ordered as soon as `engine.swap` allows
        self._tolerance = compute_tolerance(config)

    def order(self, weights: Weights) -> None:
        """Order the engine to sample from these weights. They must be on this host.

        Weights that were ordered earlier and still wait are skipped.
        """
        self._newer = weights
        self._begin()

    async def run(self) -> None:
        """Serve until cancelled. The engine's thread then finishes its step and ends."""
        callbacks = self._answer, self._record_served
        torch_loop = partial(work, self._engine, self._orders, *callbacks, current_trio_token(), self._tolerance)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, torch_loop)
            try:
                async with trio.open_nursery() as tasks:
                    for task in (self._accept, self._forget, self._expire, self._measure):
                        tasks.start_soon(task)
                    if self._follower is not None:
                        tasks.start_soon(self._follower.run, self.order)
            finally:
                self._orders.put(Stop())

    async def _accept(self) -> None:
        while True:
            await self._room.acquire()
            if not await self._take(await self._server.receive()):
                self._room.release()

    async def _take(self, incoming: IncomingRequest) -> bool:
        """Queue a request. Returns False if nothing was queued."""
        match incoming.message:
            case Generate() as request:
                refusal = self._find_refusal(request)
            case GiveUp(name):
                self._forget_named(incoming.peer, name)
                await self._server.reply(incoming, Done())
                return False
            case other:
                refusal = Refused(f"an engine does not serve {type(other).__name__}")
        if refusal is not None:
            await self._server.reply(incoming, refusal)
            return False
        key = (incoming.peer, incoming.id)
        if key in self._numbers:
            return False  # the peer sent the request again after a new handshake. The first copy will be answered.
        number = self._numbers[key] = next(self._count)
        self._open[number] = PendingRequest(incoming, request, trio.current_time())
        self._shares.ask(number, incoming.hello.role)
        self._begin()
        return True

    def _find_refusal(self, request: Generate) -> Refused | None:
        try:
            reason = self._engine.refusal(request)
        except Exception as error:
            return self._faults.refusal(request, error)
        return None if reason is None else Refused(reason)

    def _begin(self) -> None:
        """Give the engine the requests that may begin now.

        If `engine.swap` is "wait" and new weights are ordered, no request begins until the sequences in flight have
        ended.
        """
        if self._newer is not None:
            if self._waits and self._shares.begun:
                return
            self._orders.put(self._newer)
            self._newer = None
        while (number := self._shares.begin()) is not None:
            pending = self._open[number]
            pending.began = trio.current_time()
            self._queued_s.append(pending.began - pending.since)
            self._orders.put(Submit(number, pending.request))

    def _close(self, number: int) -> PendingRequest | None:
        """Remove a request and return it. Returns None if it was removed before."""
        pending = self._open.pop(number, None)
        if pending is not None:
            del self._numbers[pending.incoming.peer, pending.incoming.id]
            self._shares.end(number)
            self._room.release()
        return pending

    def _give_up(self, number: int) -> PendingRequest | None:
        """Remove a request. Cancel it if the engine has it."""
        pending = self._close(number)
        if pending is not None and pending.began is not None:
            self._orders.put(Cancel(number))
        self._begin()
        return pending

    def _answer(self, results: Results) -> None:
        for number, result in results:
            pending = self._close(number)
            if pending is not None:
                if isinstance(result, Exception):
                    result = self._faults.refusal(pending.request, result)
                self._server.reply_nowait(pending.incoming, self._add_digests(result))
        self._begin()

    def _add_digests(self, result: Generated | Refused) -> Generated | Refused:
        if self._follower is None or isinstance(result, Refused):
            return result
        return msgspec.structs.replace(result, digests=self._follower.digests(result.versions))

    def _record_served(self, swapped: CheckedWeights) -> None:
        assert self._follower is not None, "only a follower orders weights"
        self._follower.served(swapped)

    async def _forget(self) -> None:
        """Cancel the requests of peers that are gone, unless a peer has come back."""
        async for peer, _ in self._server.gone:
            if peer in self._server.peers:
                continue
            for number in [number for number, pending in self._open.items() if pending.incoming.peer == peer]:
                self._give_up(number)

    def _forget_named(self, peer: bytes, name: str) -> None:
        """Cancel the requests that this peer sent under a name."""
        for number, pending in list(self._open.items()):
            if name and (pending.incoming.peer, pending.request.name) == (peer, name):
                self._give_up(number)

    async def _expire(self) -> None:
        """Cancel overdue requests, because their senders no longer wait."""
        while True:
            await trio.sleep(self._beat_s)
            now = trio.current_time()
            late = [(number, overdue) for number, pending in self._open.items() if (overdue := pending.overdue(now))]
            for number, overdue in late:
                pending = self._give_up(number)
                if pending is not None:
                    self._overdue += 1
                    await self._server.reply(pending.incoming, overdue)

    async def _measure(self) -> None:
        """Update the gauges once per heartbeat. docs/metrics.md explains their names."""
        engine, sampled, since = self._engine, self._engine.sampled, trio.current_time()
        while True:
            await trio.sleep(self._beat_s)
            now = trio.current_time()
            waiting = self._shares.waiting
            self._replay.gauges.update(
                rows_active=engine.active,
                queue=engine.queued + sum(waiting.values()),
                queue_s=sum(self._queued_s) / max(len(self._queued_s), 1),
                overdue=self._overdue,
                request_faults=self._faults.total,
                tokens_per_s=(engine.sampled - sampled) / (now - since),
                policy_version=engine.version,
                **engine.gauges(),
                **{f"queue_{role}": count for role, count in waiting.items()},
            )
            sampled, since = engine.sampled, now
            self._queued_s.clear()
