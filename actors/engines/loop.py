"""The engine's own thread: it follows orders between two steps and never waits for the bus."""

import logging
import queue
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from trio.lowlevel import TrioToken

from actors.engines.base import Engine
from spade.protocol import Generate, Generated, Refused, Weights

log = logging.getLogger(__name__)


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
Results = Sequence[tuple[int, Generated | Refused]]


def work(
    engine: Engine, orders: "queue.SimpleQueue[Order]", ended: Callable[[Results], None], token: TrioToken
) -> None:
    """The torch half: follow orders between steps, step while there is work, wait for orders while there is none."""
    while True:
        weights = None
        for order in _taken(orders, wait=not engine.busy):
            match order:
                case Submit(id, request):
                    engine.submit(id, request)
                case Cancel(id):
                    engine.cancel(id)
                case Weights():
                    weights = order
                case Stop():
                    return
        if weights is not None:
            _swap(engine, weights)
        results = engine.step()
        if results:
            token.run_sync_soon(ended, results)


def _taken(orders: "queue.SimpleQueue[Order]", *, wait: bool) -> list[Order]:
    """All orders there are; with `wait`, at least one."""
    taken = [orders.get()] if wait else []
    while not orders.empty():
        taken.append(orders.get())
    return taken


def _swap(engine: Engine, weights: Weights) -> None:
    if not Path(weights.path).is_dir():
        # The learner keeps the newest few: this one is pruned, so newer ones have been announced.
        log.warning("policy version %d is gone before it was loaded; waiting for the next", weights.version)
        return
    started = time.perf_counter()
    engine.load_weights(weights)
    log.info("policy version %d loaded in %.0f ms", weights.version, 1e3 * (time.perf_counter() - started))
