"""Round trips of leases and acknowledgements: every client leases one play, hands it in, and begins again.

    python -m tests.bench.leases [--clients 1 8 64 512] [--rounds 3] [--durability nosync] [--out leases.json]

The clients live in processes of their own, each with its own connection to the real service. Prints medians over the
rounds; a round trip is a lease or an acknowledgement.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import trio

from replay.client import ReplayClient
from spade.config import Config, load
from tests.bench.harness import clocked, command, conclude, in_turns, medians, spread
from tests.bench.ingest import cpu_s, ended, settings, trajectory
from tests.peers import joined, pid_of, supervised
from tests.replay import feeding
from tests.replay.everyone import everyone

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
            with clocked(waits):
                (play,) = await replay.lease_plays(1, 30.0)
            with clocked(waits):
                await replay.submit_plays((ended(play.id, said, float(left % 2)),))

    async with AsyncExitStack() as stack:
        opened = [joined(address, config, "agent", f"{name}-{number}") for number in range(count)]
        replays = [await stack.enter_async_context(each) for each in opened]
        print("ready", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
        began = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for replay in replays:
                nursery.start_soon(live, replay)
        print(json.dumps([time.perf_counter() - began, waits]))


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
        **{f"{name} ms": ms for name, ms in spread(waits).items()},
    }


async def measured(count: int, durability: str) -> dict[str, float]:
    """The service in one process, the clients in others."""
    with tempfile.TemporaryDirectory() as folder:
        run, config = Path(folder), settings(durability, PLAYS)
        address = f"ipc://{run}/replay"
        async with supervised(run, config, "replay") as supervisor:
            async with everyone(address, config) as replay:
                await feeding.publish(replay)
                await feeding.design(replay, config.design.active_environments)
            before = cpu_s(pid_of(supervisor, "replay"))
            figures = await trio.to_thread.run_sync(together, [address, str(run / "config.toml")], count)
            worked = cpu_s(pid_of(supervisor, "replay")) - before
            return figures | {"service CPU us": 1e6 * worked / (2 * plays_of(count))}


def main() -> None:
    parser = command(__doc__, clients=[1, 8, 64, 512], rounds=3, out=Path("leases.json"))
    parser.add_argument("--durability", choices=["sync", "nosync"], default="nosync")
    parser.add_argument("--part", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        address, path, name, count, plays = arguments.part
        trio.run(clients, address, load(path), name, int(count), int(plays))
        return
    jobs = {f"{n} clients": lambda _, n=n: trio.run(measured, n, arguments.durability) for n in arguments.clients}
    figures = {name: medians(rows) for name, rows in in_turns(jobs, arguments.rounds).items()}
    lines = [
        " ".join([f"{name:<12}", *(f"{key} {value:9.4g}" for key, value in row.items())])
        for name, row in figures.items()
    ]
    conclude(arguments.out, figures, "\n".join(lines))


if __name__ == "__main__":
    main()
