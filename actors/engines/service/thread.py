"""The engine's thread. It follows orders between two steps and never waits for the bus."""

import queue
from collections.abc import Callable
from typing import NamedTuple

from trio.lowlevel import TrioToken

from actors.engines.base import Engine, Result, Results
from actors.engines.weights.swap import CheckedWeights, swap
from spade.protocol import Generate, Weights


class Submit(NamedTuple):
    """An order to sample."""

    id: int
    """Identifies the request in later orders and results."""

    request: Generate
    """The request."""


class Cancel(NamedTuple):
    """An order to forget a request."""

    id: int
    """The id of the request."""


class Stop(NamedTuple):
    """An order to end the thread."""


Order = Submit | Cancel | Weights | Stop


def work(
    engine: Engine,
    orders: "queue.SimpleQueue[Order]",
    ended: Callable[[Results], None],
    served: Callable[[CheckedWeights], None],
    token: TrioToken,
    tolerance: float,
) -> None:
    """Drive the engine: follow orders between steps, step while there is work, otherwise wait for orders.

    Calls `ended` with results and `served` with newly loaded weights, both in trio's thread. `tolerance` is the largest
    difference allowed on the canary of new weights, in nats.
    """
    while True:
        taken = _take_orders(orders, wait=not engine.busy)
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
                # Load weights at their place among the orders, because some engines begin a request at `submit`.
                case Weights() if order is newest:
                    if (swapped := swap(engine, order, tolerance)) is not None:
                        token.run_sync_soon(served, swapped)
                case Stop():
                    return
        results = [*failed, *engine.step()]
        if results:
            token.run_sync_soon(ended, results)


def _take_orders(orders: "queue.SimpleQueue[Order]", *, wait: bool) -> list[Order]:
    """Take all orders from the queue. With `wait`, wait for at least one."""
    taken = [orders.get()] if wait else []
    while not orders.empty():
        taken.append(orders.get())
    return taken
