"""The engine's own thread: it follows orders between two steps and never waits for the bus."""

import queue
from collections.abc import Callable
from typing import NamedTuple

from trio.lowlevel import TrioToken

from actors.engines.base import Engine, Result, Results
from actors.engines.weights.swap import Swapped, swap
from spade.protocol import Generate, Weights


class Submit(NamedTuple):
    """Order to sample."""

    id: int
    request: Generate


class Cancel(NamedTuple):
    """Order to forget a request."""

    id: int


class Stop(NamedTuple):
    """Order to leave."""


Order = Submit | Cancel | Weights | Stop


def work(
    engine: Engine,
    orders: "queue.SimpleQueue[Order]",
    ended: Callable[[Results], None],
    served: Callable[[Swapped], None],
    token: TrioToken,
    tolerance: float,
) -> None:
    """Drive the engine: follow orders between steps, step while there is work, wait for orders while there is none.

    `ended` and `served` are called in trio's thread. `tolerance`: of the canary of new weights, nats.
    """
    while True:
        taken = _taken(orders, wait=not engine.busy)
        newest = next((order for order in reversed(taken) if isinstance(order, Weights)), None)
        failed: list[tuple[int, Result]] = []
        for order in taken:
            match order:
                case Submit(id, request):
                    try:
                        engine.submit(id, request)
                    except Exception as error:
                        failed.append((id, error))
                case Cancel(id):
                    engine.cancel(id)
                case Weights() if order is newest:  # in its order: some engines begin a submitted request at once
                    if (swapped := swap(engine, order, tolerance)) is not None:
                        token.run_sync_soon(served, swapped)
                case Stop():
                    return
        results = [*failed, *engine.step()]
        if results:
            token.run_sync_soon(ended, results)


def _taken(orders: "queue.SimpleQueue[Order]", *, wait: bool) -> list[Order]:
    """All orders in the queue; with `wait`, at least one."""
    taken = [orders.get()] if wait else []
    while not orders.empty():
        taken.append(orders.get())
    return taken
