"""A machine of `tests.bench.spread`: the first has the learner and the replay service's pulse, each other an engine.

    python -m tests.bench.spread_host PLACE HOME DIGEST ADDRESS…

HOME has `config.toml` and the learner's `weights`; the addresses are those of the pulse, the learner, the engines. Each
host says `[]` when it is up. An engine's begins with a line from stdin, and says how long it took, s, how many bytes it
fetched, and how many of them other hosts sent.
"""

import json
import sys
from functools import partial
from pathlib import Path

import trio

from actors.engines.weights.fetch import WeightsCache
from learner.broadcast import broadcast
from spade.config import Config, compute_digest, load
from spade.policy.model_folder import NANO
from spade.protocol import Peer, Pulse, Ready, Weights
from spade.transport import connect, serve
from spade.transport.pump import run_in_background
from tests.peers import hello


async def learner(settings: Config, home: Path, addresses: list[str]) -> None:
    """Serve the weights, and tell each engine of the others."""
    pulse, own, *engines = addresses
    peers = (
        Peer("learner", "learner", own),
        *(Peer("engine", f"engine-{place}", address) for place, address in enumerate(engines, 1)),
    )
    served = serve(
        pulse,
        digest=compute_digest(settings),
        bus=settings.bus,
        ready=lambda _: Ready(peers),
        pulse=lambda: Pulse(peers),
    )
    async with served, broadcast(own, home / "weights", settings):
        print("[]", flush=True)
        await trio.sleep_forever()


async def engine(settings: Config, place: int, named: str, addresses: list[str]) -> None:
    """Bring the weights when told to, and pass them on for ever."""
    ours = hello(settings, "engine", f"engine-{place}", addresses[1 + place])
    served = serve(addresses[1 + place], digest=compute_digest(settings), bus=settings.bus)
    async with served as server, connect(addresses[0], ours, bus=settings.bus) as replay:
        cache = WeightsCache(replay, settings.bus, Path("/tmp/run"), str(NANO))  # the machine's own memory
        async with run_in_background(partial(cache.pass_on, server)):
            print("[]", flush=True)
            await trio.to_thread.run_sync(sys.stdin.readline)
            began = trio.current_time()
            await cache.bring(Weights(1, 1, named, f"/of/another/machine/{named}"))
            print(json.dumps([trio.current_time() - began, cache.fetched_bytes, cache.passed_bytes]), flush=True)
            await trio.sleep_forever()


def main() -> None:
    place, home, named, *addresses = sys.argv[1:]
    settings = load(str(Path(home) / "config.toml"))
    if place == "0":
        trio.run(learner, settings, Path(home), addresses)
    else:
        trio.run(engine, settings, int(place), named, addresses)


if __name__ == "__main__":
    main()
