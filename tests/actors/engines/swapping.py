"""New weights under load: a real engine behind a real queue, its caller and its replay service on the bus."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trio

from actors.engines.service.request_queue import RequestQueue
from actors.engines.weights.fetch import WeightsCache
from actors.engines.weights.follower import Follower
from actors.engines.weights.swap import CheckedWeights
from spade import config
from spade.protocol import Generate, Generated, Weights
from spade.transport import serve
from tests.actors.small_services import SmallReplay, small_replay
from tests.peers import connected

DEADLINE_S = 120  # of what takes seconds on an idle machine


class Meeting:
    """An engine that waits until `count` are in flight; after their first step `then` is called in trio's thread."""

    def __init__(self, engine, count, then) -> None:
        self._engine = engine
        self._missing = count
        self._then = then

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    @property
    def busy(self) -> bool:
        return self._missing <= 0 and self._engine.busy

    def submit(self, id: int, request: Generate) -> None:
        self._missing -= 1
        self._engine.submit(id, request)

    def step(self):
        if self._missing > 0:
            return []
        results = self._engine.step()
        if self._then is not None:
            then, self._then = self._then, None
            trio.from_thread.run_sync(then)
        return results


async def asked_over_swaps(
    engine, swap: str, rows: int, weights: Sequence[Weights], requests: Sequence[Generate], folder: Path
) -> list[Generated]:
    """The answers to requests that come together, in their order.

    The engine serves the first of `weights`. The others come, one after the other, between two steps of the first
    `rows` - 1 requests, as many as one role may have in flight.
    """
    chosen = (f"engine.rows={rows}", f"engine.swap={swap}")
    settings = config.load("nano", (*chosen, "bus.heartbeat_s=0.1", f"bus.call_deadline_s={DEADLINE_S}"))

    def order() -> None:
        for newer in weights[1:]:
            queue.order(newer)

    async with (
        small_replay(SmallReplay(), settings) as replay,
        connected(replay.address, settings, "engine") as client,
        serve("tcp://127.0.0.1:0", digest=config.compute_digest(settings), bus=settings.bus) as server,
        connected(server.address, settings, "agent") as caller,
        trio.open_nursery() as nursery,
    ):
        follower = Follower(client, WeightsCache(client, settings.bus, folder, ""), CheckedWeights(weights[0], None))
        queue = RequestQueue(server, client, Meeting(engine, rows - 1, order), settings, follower)
        nursery.start_soon(queue.run)
        answers = [Generated(b"", b"", (), "stop")] * len(requests)

        async def ask(index: int) -> None:
            answers[index] = await caller.call(requests[index])

        async with trio.open_nursery() as asking:
            for index in range(len(requests)):
                asking.start_soon(ask, index)
        nursery.cancel_scope.cancel()
    return answers
