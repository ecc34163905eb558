"""Trajectories from a producer's process over the bus into the store, until acknowledged; against three peers.

    python -m tests.bench.ingest [--rounds 3] [--out ingest.json]

Interleaved with ours, over the same bytes: (a) ZeroMQ PUSH/PULL, (b) LMDB puts with the same grouping and durability,
(c) the content as Python lists in msgspec over PUSH/PULL, decoded, not stored and not acknowledged. Prints medians.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

import lmdb
import msgspec
import numpy as np
import trio
import zmq

from replay.client import ReplayClient
from spade.codec import encode, pack_floats, pack_ids, pack_mask
from spade.config import Config, digest, dump, load
from spade.process import Launch
from spade.protocol import PROTOCOL_VERSION, Hello, StepMetrics, Trajectory
from spade.supervise import supervise
from spade.transport import connect
from tests.replay.replay_world import environment

SHAPES = {"32 x 2048 tokens": (2048, 32, 2048), "256 x 200 tokens": (200, 256, 8192)}
"""Name to tokens of a trajectory, how many are in flight at once, how many in all."""


def settings(durability: str) -> Config:
    """Windows and batches so wide that nothing but the ingest itself is measured."""
    return load("nano", (
        f"replay.durability={durability}", "design.active_environments=66", "design.round_jobs=66",
        "play.group_size=64", "play.window_chunks=2", "learner.batch_sequences=16384", "bus.window=512",
        "bus.max_message_bytes=268435456",
        "play.lease_s=600", "play.window_deadline_s=3600", "bus.silence_s=30",
    ))  # fmt: skip


def trajectory(tokens: int) -> Trajectory:
    """Random content, half of it sampled."""
    rng = np.random.default_rng(tokens)
    half = tokens // 2
    return Trajectory(
        ids=pack_ids(rng.integers(0, 150_000, tokens).tolist()),
        mask=pack_mask([False] * half + [True] * half),
        logprobs=pack_floats(rng.normal(-1, 1, tokens).tolist()),
        versions=((1, half),),
        temperature=1.0,
    )


# ---------------------------------------------------------------- ours


async def produce(address: str, config: Config, tokens: int, at_once: int, count: int) -> dict[str, float]:
    """Lease plays, then hand them in; the clock runs from the first handing in to the last acknowledgement."""
    hello = Hello(PROTOCOL_VERSION, digest(config), "agent", "producer", os.getpid())
    async with connect(address, hello, bus=config.bus) as client:
        replay = ReplayClient(client, config.bus.call_deadline_s)
        weights = await replay.publish(0, "digest", "/nowhere", StepMetrics(loss=0.0, step_s=0.0))
        made = 0
        while made < config.design.active_environments:
            for job in await replay.lease_designs(64, 5.0):
                await replay.submit_environment(environment(job, weights.version))
                made += 1
        leases = []
        while len(leases) < count:
            leases += await replay.lease_plays(count - len(leases), 5.0)
        said = trajectory(tokens)
        ends = zip(leases, itertools.cycle((0.0, 1.0)), strict=False)
        plays = [SubmitPlay(play.id, play.lease, "terminated", end, (end,), 0.5, said) for play, end in ends]
        waits: list[float] = []

        async def hand_in() -> None:
            while plays:
                play = plays.pop()
                began = time.perf_counter()
                await replay.submit_play(play)
                waits.append(1000 * (time.perf_counter() - began))

        began = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(at_once):
                nursery.start_soon(hand_in)
        seconds = time.perf_counter() - began
        return {"Mtoken/s": count * tokens / seconds / 1e6, "ack p50 ms": median(waits), "ack p99 ms": p99(waits)}


def p99(values: list[float]) -> float:
    return quantiles(values, n=100)[98]


def ours(tokens: int, at_once: int, count: int, durability: str) -> dict[str, float]:
    """The real service in its process, a producer in another."""
    with tempfile.TemporaryDirectory() as folder:
        run, config = Path(folder), settings(durability)
        (run / "config.toml").write_text(dump(config))
        address = f"ipc://{run}/replay.sock"

        async def served() -> dict[str, float]:
            async with supervise(config.supervise, run / "logs") as supervisor:
                await supervisor.add(Launch("replay", "replay", str(run / "config.toml"), str(run), address, address))
                words = [address, str(run / "config.toml"), str(tokens), str(at_once), str(count)]
                return json.loads(await output("produce", words))

        figures = trio.run(served)
        return figures | {"bytes/token": stored_bytes(run / "store") / (count * tokens)}


async def output(part: str, words: list[str]) -> bytes:
    """What this module prints in another process, as `part`."""
    command = [sys.executable, "-m", "tests.bench.ingest", "--part", part, *words]
    return (await trio.run_process(command, capture_stdout=True)).stdout


def stored_bytes(store: Path) -> int:
    """Pages of the store that were ever used."""
    with lmdb.open(str(store), readonly=True) as environment:
        return (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]


# ---------------------------------------------------------------- the peers


def pushed(tokens: int, count: int, as_lists: bool) -> float:
    """Mtoken/s through PUSH/PULL from another process: raw bytes, or lists that are decoded."""
    with tempfile.TemporaryDirectory() as folder, zmq.Context() as context, context.socket(zmq.PULL) as socket:
        address = f"ipc://{folder}/pull"
        socket.bind(address)
        words = [address, str(tokens), str(count), "lists" if as_lists else "bytes"]
        with subprocess.Popen([sys.executable, "-m", "tests.bench.ingest", "--part", "push", *words]):
            decoder = msgspec.msgpack.Decoder()
            socket.recv()  # the producer is up and has made its content
            began = time.perf_counter()
            for _ in range(count):
                data = socket.recv()
                if as_lists:
                    decoder.decode(data)
            return count * tokens / (time.perf_counter() - began) / 1e6


def push(address: str, tokens: int, count: int, kind: str) -> None:
    """The producer of `pushed`; lists are encoded one by one, as a real one would."""
    said = trajectory(tokens)
    play = SubmitPlay("p00000000", 0, "terminated", 1.0, (1.0,), 0.5, said)
    lists = {
        "ids": np.frombuffer(said.ids, "<i4").tolist(),
        "mask": list(said.mask),
        "logprobs": np.frombuffer(said.logprobs, "<f4").tolist(),
    }
    encoder = msgspec.msgpack.Encoder()
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.connect(address)
        socket.send(b"up")
        for _ in range(count):
            socket.send(encode(play) if kind == "bytes" else encoder.encode(lists))


def put(tokens: int, at_once: int, count: int, durability: str) -> float:
    """Mtoken/s of bare puts of the same records, `at_once` to a transaction."""
    value = msgspec.msgpack.encode(trajectory(tokens))
    with (
        tempfile.TemporaryDirectory() as folder,
        lmdb.open(folder, map_size=2 << 30, sync=durability == "sync") as environment,
    ):
        began = time.perf_counter()
        for start in range(0, count, at_once):
            with environment.begin(write=True) as transaction:
                for index in range(start, start + at_once):
                    transaction.put(f"p{index:08}".encode(), value)
        return count * tokens / (time.perf_counter() - began) / 1e6


def measure(durability: str, rounds: int) -> dict[str, dict[str, float]]:
    """Medians over the rounds, by shape."""
    figures = {}
    for name, (tokens, at_once, count) in SHAPES.items():
        taken: dict[str, list[float]] = {}
        for _ in range(rounds):
            peers = {
                "(a) PUSH/PULL": pushed(tokens, count, as_lists=False),
                "(b) LMDB puts": put(tokens, at_once, count, durability),
                "(c) lists, no ack": pushed(tokens, count, as_lists=True),
            }
            for key, value in (ours(tokens, at_once, count, durability) | peers).items():
                taken.setdefault(key, []).append(value)
        figures[name] = {key: median(values) for key, values in taken.items()}
        slower = min(figures[name]["(a) PUSH/PULL"], figures[name]["(b) LMDB puts"])
        figures[name]["of the slower of (a), (b)"] = figures[name]["Mtoken/s"] / slower
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--durability", choices=["sync", "nosync"], default="sync")
    parser.add_argument("--out", type=Path, default=Path("ingest.json"))
    parser.add_argument("--part", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    match arguments.part:
        case ["produce", address, path, tokens, at_once, count]:
            figures = trio.run(produce, address, load(path), int(tokens), int(at_once), int(count))
            print(json.dumps(figures))
        case ["push", address, tokens, count, kind]:
            push(address, int(tokens), int(count), kind)
        case _:
            figures = measure(arguments.durability, arguments.rounds)
            arguments.out.write_text(json.dumps(figures, indent=2) + "\n")
            for name, row in figures.items():
                print(name, *(f"  {key:<28}{value:10.3g}" for key, value in row.items()), sep="\n")


if __name__ == "__main__":
    main()
