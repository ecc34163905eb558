"""Round trips of leases and acknowledgements: every client leases one play, hands it in, and begins again.

    python -m tests.bench.leases [--clients 1 8 64 512] [--rounds 3] [--durability nosync] [--out leases.json]

The clients live in processes of their own, each with its own connection to the real service. Prints medians over the
rounds; a round trip is a lease or an acknowledgement.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median, quantiles

import trio

from replay.client import ReplayClient
from spade.app.supervisor.launches import MODULES
from spade.config import Config, digest, dump, load
from spade.process import Launch
from spade.protocol import PROTOCOL_VERSION, Hello, StepMetrics
from spade.supervise import supervise
from spade.transport import connect
from tests.bench.ingest import cpu_s, ended, settings, trajectory
from tests.replay.everyone import everyone
from tests.replay.replay_world import environment

PLAYS = 4_096
EACH = 128  # clients of a process: ZeroMQ has no more sockets for one
TOKENS = 200


async def clients(address: str, config: Config, name: str, count: int, left: int) -> None:
    """So many clients share `left` plays; begins with a line on stdin, prints the waits in ms."""
    said = trajectory(TOKENS)
    waits: list[float] = []

    async def live(replay: ReplayClient) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            began = time.perf_counter()
            (play,) = await replay.lease_plays(1, 30.0)
            leased = time.perf_counter()
            await replay.submit_plays((ended(play.id, said, float(left % 2)),))
            waits.extend((1000 * (leased - began), 1000 * (time.perf_counter() - leased)))

    async with AsyncExitStack() as stack:
        replays = []
        for number in range(count):
            hello = Hello(PROTOCOL_VERSION, digest(config), "agent", f"{name}-{number}", os.getpid())
            client = await stack.enter_async_context(connect(address, hello, bus=config.bus))
            replays.append(ReplayClient(client, config.bus.call_deadline_s))
        print("ready", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
        began = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for replay in replays:
                nursery.start_soon(live, replay)
        print(json.dumps([time.perf_counter() - began, waits]))


async def design(address: str, config: Config) -> None:
    """Environments with plays enough for all."""
    async with everyone(address, config) as replay:
        weights = await replay.publish(0, "digest", "/nowhere", StepMetrics(loss=0.0, step_s=0.0))
        made = 0
        while made < config.design.active_environments:
            for job in await replay.lease_designs(64, 5.0):
                await replay.submit_environment(environment(job, weights.version))
                made += 1


def plays_of(count: int) -> int:
    """Fewer for a client that is alone."""
    return PLAYS if count > 1 else PLAYS // 8


def together(words: list[str], count: int) -> dict[str, float]:
    """The clients in processes of at most `EACH`, begun at one time."""
    plays = plays_of(count)
    shares = [min(EACH, count - start) for start in range(0, count, EACH)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-m", "tests.bench.leases", "--part", *words]
    processes = [
        subprocess.Popen([*command, f"agent-{index}", str(share), str(plays * share // count)], **pipes)
        for index, share in enumerate(shares)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [json.loads(process.communicate()[0]) for process in processes]
    waits = [wait for _, each in told for wait in each]
    return {
        "round trips/s": len(waits) / max(seconds for seconds, _ in told),
        "p50 ms": median(waits),
        "p99 ms": quantiles(waits, n=100)[98],
    }


async def measured(count: int, durability: str) -> dict[str, float]:
    """The service in one process, the clients in others."""
    with tempfile.TemporaryDirectory() as folder:
        run, config = Path(folder), settings(durability, PLAYS)
        (run / "config.toml").write_text(dump(config))
        address = f"ipc://{run}/replay.sock"
        async with supervise(config.supervise, run / "logs", MODULES) as supervisor:
            await supervisor.add(Launch("replay", "replay", str(run / "config.toml"), str(run), address, address))
            await design(address, config)
            (service,) = supervisor.processes()
            before = cpu_s(service.pid)
            figures = await trio.to_thread.run_sync(together, [address, str(run / "config.toml")], count)
            worked = cpu_s(service.pid) - before
            return figures | {"service CPU us": 1e6 * worked / (2 * plays_of(count))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64, 512])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--durability", choices=["sync", "nosync"], default="nosync")
    parser.add_argument("--out", type=Path, default=Path("leases.json"))
    parser.add_argument("--part", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        address, path, name, count, plays = arguments.part
        trio.run(clients, address, load(path), name, int(count), int(plays))
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
