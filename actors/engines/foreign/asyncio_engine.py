"""An engine that serves each request with a coroutine: for asyncio servers and libraries that batch by themselves.

The asyncio loop runs in a separate thread. The engine's thread (`service.thread`) hands requests to the loop by
thread-safe calls. Results come back through a queue. `step` waits for results only a moment, so that new orders do not
wait.
"""

import asyncio
import queue
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

from actors.engines.base import Result, Results
from spade.errors import SpadeError
from spade.protocol import Generate, Generated, Refused

T = TypeVar("T")

_PATIENCE_S = 0.002  # the longest wait of `step`, and so the longest delay of an order (`service.thread.Order`)
_PARTING_S = 1.0  # longest wait of `close` for cancelled requests
_LONGEST_S = 1_800.0  # limit of a call; a large model can start from a cold disk within it


class AsyncioEngine(ABC):
    """See `base.Engine`. At most `rows` requests are in `generate` at once. The others queue here."""

    def __init__(self, rows: int) -> None:
        self.version = 0
        self.sampled = 0
        self.active = 0
        self._rows = asyncio.Semaphore(rows)
        self._open: dict[int, Future[None]] = {}  # only the engine's thread changes it
        self._ended: queue.SimpleQueue[tuple[int, Result]] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name=type(self).__name__, daemon=True)
        self._thread.start()

    @abstractmethod
    async def generate(self, request: Generate) -> Generated | Refused:
        """Answer one request. The call is cancelled when the caller gives the request up.

        A SpadeError means that the engine is lost, and ends the engine. Any other exception fails this request alone.
        """

    @property
    def busy(self) -> bool:
        return bool(self._open)

    @property
    def queued(self) -> int:
        return max(0, len(self._open) - self.active)

    def gauges(self) -> dict[str, float]:
        return {"sampled_tokens": self.sampled}

    def submit(self, id: int, request: Generate) -> None:
        self._open[id] = asyncio.run_coroutine_threadsafe(self._serve(id, request), self._loop)

    def cancel(self, id: int) -> None:
        served = self._open.pop(id, None)
        if served is not None:
            served.cancel()

    def step(self) -> Results:
        """Return the requests that ended. Waits briefly if no request has ended."""
        results: list[tuple[int, Result]] = []
        wait = True
        while True:
            try:
                id, result = self._ended.get(wait, _PATIENCE_S)
            except queue.Empty:
                return results
            wait = False
            if isinstance(result, SpadeError):
                raise result
            if self._open.pop(id, None) is not None:  # otherwise the request was cancelled meanwhile
                results.append((id, result))

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the loop and wait for it. Raises TimeoutError after _LONGEST_S."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_LONGEST_S)

    def close(self) -> None:
        self.wait_for(_end_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _serve(self, id: int, request: Generate) -> None:
        try:
            async with self._rows:
                self.active += 1
                try:
                    result = await self.generate(request)
                finally:
                    self.active -= 1
        except Exception as error:  # `step` reports the error in the engine's thread
            self._ended.put((id, error))
        else:
            if isinstance(result, Generated):
                self.sampled += len(result.ids) // 4
            self._ended.put((id, result))


async def _end_all() -> None:
    """Cancel all other tasks of the loop."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_PARTING_S)
