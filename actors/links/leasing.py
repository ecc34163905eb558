"""Work on a bounded number of jobs at once. Each free slot leases the next job."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import trio

T = TypeVar("T")


async def keep_busy(
    slots: int,
    batch: int,
    lease: Callable[[int], Awaitable[Sequence[T]]],
    work: Callable[[T], Awaitable[None]],
    retiring: trio.Event,
) -> None:
    """Run `work` on the jobs of `lease(count)`, at most `slots` at once. `count` is at most `batch`.

    `lease` waits for jobs, and may return an empty list. An exception of `lease` or `work` ends all work. After
    `retiring` is set, nothing more is leased. `keep_busy` returns when all running work is done.
    """
    free = trio.Semaphore(slots, max_value=slots)

    async def occupy(job: T) -> None:
        await work(job)
        free.release()

    async with trio.open_nursery() as nursery:
        while True:
            await free.acquire()
            if retiring.is_set():
                return
            count = 1
            while count < batch and free.value:
                free.acquire_nowait()
                count += 1
            jobs = await lease(count)
            assert len(jobs) <= count, f"{len(jobs)} jobs for {count} slots"
            for job in jobs:
                nursery.start_soon(occupy, job)
            for _ in range(count - len(jobs)):
                free.release()
