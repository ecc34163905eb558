"""The services that are asked for parts of weights: engines of other hosts that have them, then the learner."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from spade.config import Bus
from spade.errors import BusError, RefusedError
from spade.protocol import GetWeights, Hello, WeightsPart
from spade.transport import Client, connect

ENGINES = 8  # that a fetch is connected to
ASKED = 4  # of them, for one part
PATIENCE_S = 10.0  # with an engine, which the learner can stand in for


class Sources:
    """The learner, and engines as soon as they are connected.

    engines       the number of those that are tried
    engine_bytes  of the parts that came from them
    """

    def __init__(self, learner: Client) -> None:
        self.engines = 0
        self.engine_bytes = 0
        self._learner = learner
        self._connected: list[Client] = []

    @asynccontextmanager
    async def asking(self, addresses: list[str], hello: Hello, bus: Bus) -> AsyncIterator[None]:
        """Be connected to some of these engines during the block."""
        chosen = random.sample(addresses, min(ENGINES, len(addresses)))
        self.engines = len(chosen)
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            for address in chosen:
                nursery.start_soon(self._keep, address, hello, bus)
            try:
                yield
            except Exception as error:  # raised again below, outside of the nursery
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    def learner_alone(self) -> "Sources":
        """The learner, whose files are the true ones."""
        return Sources(self._learner)

    async def part(self, request: GetWeights) -> WeightsPart:
        """A part, from wherever it is. Raises BusError if the learner does not give it either."""
        for engine in random.sample(self._connected, min(ASKED, len(self._connected))):
            try:
                part = await engine.call(request, PATIENCE_S)
            except RefusedError:  # it does not have that part yet
                continue
            except BusError:
                self._drop(engine)
                continue
            if part.data:
                self.engine_bytes += len(part.data)
                return part
        part = await self._learner.call(request)
        if not part.data:
            raise BusError(
                f"{self._learner.address}: the learner answered GetWeights with nothing of {request.file} at "
                f"{request.offset}"
            )
        return part

    async def _keep(self, address: str, hello: Hello, bus: Bus) -> None:
        try:
            async with connect(address, hello, bus=bus) as engine:
                self._connected.append(engine)
                try:
                    await trio.sleep_forever()
                finally:
                    self._drop(engine)
        except BusError:
            return  # nothing is asked of it

    def _drop(self, engine: Client) -> None:
        if engine in self._connected:
            self._connected.remove(engine)
