"""Round trips of leases and acknowledgements: every client leases one play, hands it in, and begins again.

    python -m tests.bench.leases [--clients 1 8 64 512] [--rounds 3] [--durability nosync] [--out leases.json]

The clients live in a process of their own, each with its own connection to the real service. Prints medians over the
rounds; a round trip is a lease or an acknowledgement.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median, quantiles

import trio

from replay.client import ReplayClient
from spade.config import Config, digest, dump, load
from spade.process import Launch
from spade.protocol import PROTOCOL_VERSION, Hello, StepMetrics
from spade.supervise import supervise
from spade.transport import connect
from tests.bench.ingest import ended, settings, trajectory
from tests.replay.replay_world import environment

PLAYS = 4_096
TOKENS = 200


async def clients(address: str, config: Config, count: int) -> dict[str, float]:
    """So many clients share the plays of a run until all have ended."""
    said = trajectory(TOKENS)
    waits: list[float] = []
    left = PLAYS if count > 1 else PLAYS // 8

    async def live(replay: ReplayClient) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            began = time.perf_counter()
            (play,) = await replay.lease_plays(1, 30.0)
            leased = time.perf_counter()
            await replay.submit_plays((ended(play.id, said, float(left % 2)),))
            waits.extend((leased - began, time.perf_counter() - leased))

    async with AsyncExitStack() as stack:
        replays = []
        for number in range(count):
            hello = Hello(PROTOCOL_VERSION, digest(config), "agent", f"agent-{number}", os.getpid() * 1000 + number)
            client = await stack.enter_async_context(connect(address, hello, bus=config.bus))
            replays.append(ReplayClient(client, config.bus.call_deadline_s))
        weights = await replays[0].publish(0, "digest", "/nowhere", StepMetrics(loss=0.0, step_s=0.0))
        made = 0
        while made < config.design.active_environments:
            for job in await replays[0].lease_designs(64, 5.0):
                await replays[0].submit_environment(environment(job, weights.version))
                made += 1
        began = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for replay in replays:
                nursery.start_soon(live, replay)
        seconds = time.perf_counter() - began
    return {
        "round trips/s": len(waits) / seconds,
        "p50 ms": 1000 * median(waits),
        "p99 ms": 1000 * quantiles(waits, n=100)[98],
    }


async def measured(count: int, durability: str) -> dict[str, float]:
    """The service in one process, the clients in another."""
    with tempfile.TemporaryDirectory() as folder:
        run, config = Path(folder), settings(durability, PLAYS)
        (run / "config.toml").write_text(dump(config))
        address = f"ipc://{run}/replay.sock"
        async with supervise(config.supervise, run / "logs") as supervisor:
            await supervisor.add(Launch("replay", "replay", str(run / "config.toml"), str(run), address, address))
            words = [address, str(run / "config.toml"), str(count)]
            command = [sys.executable, "-m", "tests.bench.leases", "--part", *words]
            return json.loads((await trio.run_process(command, capture_stdout=True)).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64, 512])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--durability", choices=["sync", "nosync"], default="nosync")
    parser.add_argument("--out", type=Path, default=Path("leases.json"))
    parser.add_argument("--part", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        address, path, count = arguments.part
        print(json.dumps(trio.run(clients, address, load(path), int(count))))
        return
    taken: dict[int, list[dict[str, float]]] = {count: [] for count in arguments.clients}
    for _ in range(arguments.rounds):
        for count, rows in taken.items():
            rows.append(trio.run(measured, count, arguments.durability))
    figures = {
        f"{count} clients": {key: median(row[key] for row in rows) for key in rows[0]} for count, rows in taken.items()
    }
    arguments.out.write_text(json.dumps(figures, indent=2) + "\n")
    for name, row in figures.items():
        print(f"{name:<12}", *(f"{key} {value:9.4g}" for key, value in row.items()))


if __name__ == "__main__":
    main()
