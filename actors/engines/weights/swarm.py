"""The fetch of missing parts, from the learner and from other hosts that fetch them too.

The learner is asked for parts that no neighbour has, so that it sends each part to one host. A neighbour (an engine of
another host) is asked for parts that it has. In each answer the neighbour lists the parts that it lacks.
"""

import os
from collections.abc import Awaitable, Callable
from functools import reduce
from operator import and_

import trio

from actors.engines.weights.missing import ALL, MissingParts
from actors.engines.weights.sources import Neighbour, PartSources
from spade.errors import BusError
from spade.policy.manifest import PARAMETERS
from spade.protocol import GetWeights, WeightsPart

AT_ONCE = 2  # parts requested from each source at a time, so that its link is never idle between two parts
PATIENCE_S = 10.0  # longest wait for one part from an engine, and total wait for parts that the learner could also send


class Swarm:
    """A fetch of the `missing` parts of the weights `digest` into the file with this descriptor."""

    def __init__(self, sources: PartSources, missing: MissingParts, digest: str, file: int) -> None:
        self._sources = sources
        self._missing = missing
        self._digest = digest
        self._file = file
        self._neighbours: list[Neighbour] = []
        self._came = 0  # number of parts that arrived
        self._changed = trio.lowlevel.ParkingLot()
        self._spare_s = AT_ONCE * PATIENCE_S  # seconds left to wait for engines instead of asking the learner
        self._failure: BusError | None = None

    async def bring(self, *, engines: bool) -> None:
        """Fetch all missing parts, from the learner alone or also from engines.

        Raises BusError if the learner fails.
        """
        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(self._ask_learner, nursery.cancel_scope)
            if engines:
                nursery.start_soon(self._meet, nursery)
            while self._missing.lacking:
                await self._changed.park()
            nursery.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure

    async def _ask_learner(self, scope: trio.CancelScope) -> None:
        try:
            while True:
                unheld = reduce(and_, (each.lacking for each in self._neighbours), ALL)
                number = self._missing.take_unheld(unheld if self._spare_s > 0 else ALL)
                if number is None:
                    await self._wait_for_change()
                else:
                    await self._fetch_part(number, self._sources.part)
        except BusError as error:
            self._failure = error
            scope.cancel()

    async def _wait_for_change(self) -> None:
        """Wait for a change. If engines hold parts that nobody was asked for, wait at most the rest of `_spare_s`."""
        began, waiting = trio.current_time(), bool(self._missing.left)
        with trio.move_on_after(self._spare_s if waiting else float("inf")):
            await self._changed.park()
        if waiting:
            self._spare_s -= trio.current_time() - began

    async def _meet(self, nursery: trio.Nursery) -> None:
        async for neighbour in self._sources.engines:
            nursery.start_soon(self._exchange, neighbour)

    async def _exchange(self, neighbour: Neighbour) -> None:
        """Ask a neighbour for parts until it fails."""
        self._neighbours.append(neighbour)
        came_when_asked = -1

        async def ask() -> None:
            nonlocal came_when_asked
            while True:
                number = self._missing.take_held(~neighbour.lacking)
                if number is None and came_when_asked != self._came:  # the neighbour may have more parts by now
                    came_when_asked, number = self._came, self._missing.take_held(ALL)
                if number is None:
                    await self._changed.park()
                elif not await self._try_fetch_part(number, neighbour):
                    asking.cancel_scope.cancel()

        async with trio.open_nursery() as asking:
            for _ in range(AT_ONCE):
                asking.start_soon(ask)
        self._neighbours.remove(neighbour)
        self._changed.unpark_all()

    async def _try_fetch_part(self, number: int, neighbour: Neighbour) -> bool:
        """Fetch a part from a neighbour. Returns False if the neighbour should not be asked again."""
        came = False
        try:
            with trio.move_on_after(PATIENCE_S) as patience:
                came = await self._fetch_part(number, neighbour.part)
        except BusError:
            return False
        finally:
            if not came:
                self._missing.give_back(number)
                self._changed.unpark_all()
        consistent = came or neighbour.lacking >> number & 1  # it has not claimed a part that it did not send
        return bool(consistent) and not patience.cancelled_caught

    async def _fetch_part(self, number: int, ask: Callable[[GetWeights], Awaitable[WeightsPart | None]]) -> bool:
        """Fetch a part into the file. Returns False if the source does not have it."""
        for start, end in self._missing.spans(number):
            while start < end:
                part = await ask(GetWeights(self._digest, PARAMETERS, start, end - start))
                if part is None:
                    return False
                start += await trio.to_thread.run_sync(os.pwrite, self._file, part.data[: end - start], start)
        self._missing.put(number)
        self._came += 1
        self._changed.unpark_all()
        return True
