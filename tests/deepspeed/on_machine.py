"""One rank of a backend, on the machine where this runs: `-m tests.deepspeed.on_machine HOME ADDRESS RANK`.

HOME is a folder that both machines see: `config.toml`, the first rank's `batches` and what it leaves in `out`.
"""

import os
import sys
from contextlib import closing
from itertools import count
from pathlib import Path

import msgspec
import trio

from learner.backends.opening import MODULE, open_backend
from learner.backends.ranks import Ranks
from spade.config import compute_digest, load
from spade.processes.entry import Launch
from spade.processes.supervise import supervise
from spade.protocol import Batch, Peer, Pulse, Ready
from spade.transport import serve
from spade.transport.pump import run_in_background


async def first(home, address):
    """Train on the batches and leave the state; without an `out` go on with the last batch until a rank is lost."""
    settings = load(str(home / "config.toml"))
    batches = msgspec.msgpack.decode((home / "batches").read_bytes(), type=list[Batch])
    ranks, peers = Ranks(settings), (Peer("learner", "learner", address),)
    served = serve(
        address,
        digest=compute_digest(settings),
        bus=settings.bus,
        ready=lambda _: Ready(peers),
        pulse=lambda: Pulse(peers),
    )
    async with served as server, ranks.served(server), run_in_background(ranks.watch):
        backend, _ = await trio.to_thread.run_sync(open_backend, settings, None, ranks)
        with closing(backend):
            print("meets at", os.environ["GLOO_SOCKET_IFNAME"], flush=True)
            for step in range(1, len(batches) + 1) if (home / "out").is_dir() else count(1):
                batch = msgspec.structs.replace(batches[min(step, len(batches)) - 1], step=step)
                await trio.to_thread.run_sync(backend.train, batch)
                print("step", step, flush=True)
            await trio.to_thread.run_sync(backend.save, home / "out")


async def further(home, address, rank):
    """A rank under a supervisor, which ends with it."""
    settings, name = load(str(home / "config.toml")), f"learner-{rank}"
    async with supervise(settings.supervise, home, {"learner": MODULE}) as supervisor:
        launch = Launch(name, "learner", str(home / "config.toml"), str(home), address, None, rank)
        await supervisor.add(launch)
        while not supervisor.processes()[0].restarts:  # noqa: ASYNC110 (a supervisor raises no event)
            await trio.sleep(0.05)
        print(supervisor.processes()[0].detail, flush=True)


def main():
    """Run the rank; print the reason why it ends."""
    home, address, rank = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    try:
        trio.run(first, home, address) if rank == 0 else trio.run(further, home, address, rank)
    except* Exception as errors:
        print(*leaves(errors), sep="\n", flush=True)


def leaves(error):
    """The errors in a group of errors."""
    return [leaf for one in error.exceptions for leaf in leaves(one)] if hasattr(error, "exceptions") else [error]


if __name__ == "__main__":
    main()
