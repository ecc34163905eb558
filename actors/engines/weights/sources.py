"""The services that are asked for parts of weights: the learner, and engines of other hosts that have parts."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from actors.engines.weights.missing import ALL
from spade.config import Bus
from spade.errors import BusError, RefusedError, unwrap_errors
from spade.protocol import GetWeights, Hello, WeightsPart
from spade.transport import Client, connect

ENGINES = 8  # most engines that a fetch connects to
MOST_LACKING = 1 << 20  # bytes of `WeightsPart.lacking` that are read; the rest is ignored


class PartSources:
    """The learner, and engines as soon as they are connected.

    * begin: where this host begins among all parts, from 0 to 1: its place in the sorted addresses of all engines
    * engines: a channel of newly connected engines
    * fetched_bytes: bytes from all sources
    * engine_bytes: the part of these bytes that came from engines
    """

    def __init__(self, learner: Client) -> None:
        self.begin = 0.0
        self.fetched_bytes = self.engine_bytes = 0
        self._learner = learner
        self._connected, self.engines = trio.open_memory_channel["Neighbour"](ENGINES)

    @asynccontextmanager
    async def asking(self, addresses: list[str], hello: Hello, bus: Bus) -> AsyncIterator[None]:
        """Connect to some of these engines during the block."""
        ours = hello.address or ""
        everyone = sorted({ours, *addresses})
        self.begin = everyone.index(ours) / len(everyone)
        async with unwrap_errors(trio.open_nursery()) as nursery:
            for address in random.sample(addresses, min(ENGINES, len(addresses))):
                nursery.start_soon(self._keep, address, hello, bus)
            yield

    async def part(self, request: GetWeights) -> WeightsPart:
        """Fetch a part from the learner, the authority on its files. Raises BusError."""
        part = await self._learner.call(request)
        if not part.data:
            raise BusError(
                f"{self._learner.address}: the learner answered GetWeights with no bytes of {request.file} at "
                f"{request.offset}"
            )
        self.fetched_bytes += len(part.data)
        return part

    async def _keep(self, address: str, hello: Hello, bus: Bus) -> None:
        try:
            async with connect(address, hello, bus=bus) as engine:
                self._connected.send_nowait(Neighbour(self, engine))
                await trio.sleep_forever()
        except BusError:
            return  # this engine is not asked


class Neighbour:
    """An engine of another host.

    `lacking` is the set of parts that it does not have, by its last answer. ALL before its first answer.
    """

    def __init__(self, sources: PartSources, engine: Client) -> None:
        self.lacking = ALL
        self._sources = sources
        self._engine = engine

    async def part(self, request: GetWeights) -> WeightsPart | None:
        """Fetch a part. Returns None if the engine does not have it. Raises BusError."""
        try:
            part = await self._engine.call(request)
        except RefusedError:  # its fetch has not begun
            self.lacking = ALL
            return None
        self.lacking = int.from_bytes(part.lacking[:MOST_LACKING], "little")
        self._sources.fetched_bytes += len(part.data)
        self._sources.engine_bytes += len(part.data)
        return part if part.data else None
