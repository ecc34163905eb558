"""The replay service's process."""

from collections.abc import Callable
from pathlib import Path

from replay.ledger.pacing import begin_command
from replay.service.service import Service
from replay.store import open_store
from replay.store.load import open_run
from replay.store.pool import settle_pool
from spade.config import Config, compute_digest
from spade.pools import POOL
from spade.processes.entry import Launch, main
from spade.transport import serve


async def run(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Serve the run in `launch.run` until cancelled.

    Raises RunError if the store is in use, has another format, or belongs to another run, corpus or pool. Raises
    BusError if the address cannot be served.
    """
    folder = Path(launch.run)
    with open_store(folder / "store", config.replay.durability) as store:
        opened = open_run(store, config, launch.corpus)
        begin_command(opened.state, launch.command, launch.limits, opened.elapsed_s)
        settle_pool(store, opened.state, folder / POOL)
        service = Service(config, folder, store, opened)
        address = launch.bind or launch.replay
        async with serve(
            address, digest=compute_digest(config), bus=config.bus, ready=service.greet, pulse=service.pulse
        ) as server:
            ready()
            await service.run(server)


if __name__ == "__main__":
    main(run)
