"""The engine's process with an engine that answers at once, so that all it takes is the process around it."""

from collections.abc import Callable

from actors.engines.service.request_queue import RequestQueue
from spade.codec import pack_floats, pack_ids
from spade.config import Config
from spade.processes.entry import Launch, main, open_service
from spade.protocol import Generate, Generated

ANSWER = Generated(pack_ids([3] * 4), pack_floats([-1.0] * 4), ((1, 4),), "length", bytes(16))


class Instant:
    """See `base.Engine`."""

    version = 1
    active = queued = sampled = 0

    def __init__(self) -> None:
        self._asked: list[int] = []

    @property
    def busy(self) -> bool:
        return bool(self._asked)

    def refusal(self, request: Generate) -> None:
        """It takes everything."""

    def submit(self, id: int, request: Generate) -> None:
        self._asked.append(id)

    def cancel(self, id: int) -> None:
        """It has answered."""

    def step(self) -> list[tuple[int, Generated]]:
        asked, self._asked = self._asked, []
        return [(id, ANSWER) for id in asked]


async def run(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    async with open_service(launch, config) as (server, replay):
        ready()
        await RequestQueue(server, replay, Instant(), config).run()


if __name__ == "__main__":
    main(run)
