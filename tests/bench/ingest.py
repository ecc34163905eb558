"""Trajectories from a producer's process over the bus into the store, until acknowledged; against four peers.

    python -m tests.bench.ingest [--rounds 5] [--durability sync] [--out ingest.json]

Interleaved with ours, over the same messages: (a) ZeroMQ PUSH/PULL, (b) LMDB puts of the same trajectories, a message
to a transaction, (c) the content as Python lists in msgspec over PUSH/PULL, decoded, not stored and not acknowledged,
(d) inserts of the same trajectories into SQLite, a message to a transaction (WAL; synchronous=FULL, or OFF with
"nosync"). Prints medians.
"""

import argparse
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median, quantiles

import lmdb
import msgspec
import numpy as np
import trio
import zmq

from spade.codec import encode, pack_floats, pack_ids, unpack_floats, unpack_ids, unpack_mask
from spade.config import Config, load
from spade.protocol import EndedPlay, SubmitPlays, Trajectory
from tests.bench.harness import clocked, command, conclude, in_turns, medians, sections
from tests.peers import pid_of, supervised
from tests.replay import feeding
from tests.replay.everyone import everyone

# Tokens of a trajectory, trajectories of a message, messages in all.
SHAPES = {"32 x 2048 tokens": (2048, 32, 64), "256 x 200 tokens": (200, 256, 64)}
AT_ONCE = 2  # messages in flight: the next is made while one is committed


def settings(durability: str, plays: int) -> Config:
    """Windows and batches so wide that nothing but the ingest itself is measured."""
    environments = 3 * -(-plays // (3 * 128))  # a first chunk of 64 plays in two arms, for three skills
    return load("nano", (
        f"replay.durability={durability}", f"design.active_environments={environments}",
        f"design.round_jobs={environments}", "play.group_size=64", "play.window_chunks=2",
        "learner.batch_sequences=16384", "bus.max_message_bytes=1073741824",
        "play.lease_s=600", "play.window_deadline_s=3600", "bus.silence_s=30", "audit.replays=0",
        "audit.random_plays=0", "play.context_tokens=2048", "engine.context_tokens=4096",
    ))  # fmt: skip


def trajectory(tokens: int) -> Trajectory:
    """Random content, half of it sampled in eight turns."""
    rng = np.random.default_rng(tokens)
    spans = [*[tokens // 16] * 15, tokens - tokens // 16 * 15]
    sampled = sum(spans[1::2])
    return Trajectory(
        ids=pack_ids(rng.integers(0, 150_000, tokens).tolist()),
        spans=tuple(spans),
        logprobs=pack_floats(rng.normal(-1, 1, sampled).tolist()),
        versions=((1, sampled),),
        temperature=1.0,
    )


def ended(id: str, said: Trajectory, value: float) -> EndedPlay:
    """A play of eight turns."""
    return EndedPlay(id, 1, "terminated", value, (0.0,) * 7 + (value,), 0.5, said)


# ---------------------------------------------------------------- ours


async def produce(address: str, config: Config, pid: int, tokens: int, together: int, count: int) -> dict[str, float]:
    """Lease plays, then hand them in; the clock runs from the first handing in to the last acknowledgement."""
    async with everyone(address, config) as replay:
        await feeding.publish(replay)
        await feeding.design(replay, config.design.active_environments)
        leases = shuffled(await feeding.leased(replay, together * count))
        said = trajectory(tokens)
        plays = [ended(lease.id, said, float(index % 2)) for index, lease in enumerate(leases)]
        messages = [tuple(plays[at : at + together]) for at in range(0, len(plays), together)]
        waits: list[float] = []

        async def hand_in() -> None:
            while messages:
                message = messages.pop(0)
                with clocked(waits):
                    await replay.submit_plays(message)

        began, worked = time.perf_counter(), cpu_s(pid)
        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(hand_in)
        seconds, worked = time.perf_counter() - began, cpu_s(pid) - worked
        size = len(encode(SubmitPlays(tuple(plays[:together])))) / (together * tokens)
        return {
            "Mtoken/s": count * together * tokens / seconds / 1e6, "ack p50 ms": median(waits),
            "ack p99 ms": quantiles(waits, n=100)[98], "bytes/token, wire": size,
            "service CPU, us/play": 1e6 * worked / (count * together),
        }  # fmt: skip


def cpu_s(pid: int) -> float:
    """CPU seconds a process has used, in the kernel too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def shuffled(leases: list, in_flight: int = 1024) -> list:
    """As plays end: in no order among those that go on at once."""
    order = random.Random(1)
    blocks = [leases[at : at + in_flight] for at in range(0, len(leases), in_flight)]
    return [lease for block in blocks for lease in order.sample(block, len(block))]


def ours(tokens: int, together: int, count: int, durability: str) -> dict[str, float]:
    """The real service in its process, a producer in another."""
    with tempfile.TemporaryDirectory() as folder:
        run, config = Path(folder), settings(durability, together * count)

        async def served() -> dict[str, float]:
            async with supervised(run, config, "replay") as supervisor:
                words = map(str, (run / "config.toml", pid_of(supervisor, "replay"), tokens, together, count))
                return json.loads(await output("produce", [f"ipc://{run}/replay", *words]))

        figures = trio.run(served)
        return figures | {"bytes/token, store": stored_bytes(run / "store") / (together * count * tokens)}


async def output(part: str, words: list[str]) -> bytes:
    """The output of this module in another process, as `part`."""
    command = [sys.executable, "-m", "tests.bench.ingest", "--part", part, *words]
    return (await trio.run_process(command, capture_stdout=True)).stdout


def stored_bytes(store: Path) -> int:
    """Pages of the store that were ever used."""
    with lmdb.open(str(store), readonly=True) as environment:
        return (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]


# ---------------------------------------------------------------- the peers


def pushed(tokens: int, together: int, count: int, as_lists: bool) -> float:
    """Mtoken/s through PUSH/PULL from another process: raw bytes, or lists that are decoded."""
    with tempfile.TemporaryDirectory() as folder, zmq.Context() as context, context.socket(zmq.PULL) as socket:
        address = f"ipc://{folder}/pull"
        socket.bind(address)
        words = [address, str(tokens), str(together), str(count), "lists" if as_lists else "bytes"]
        with subprocess.Popen([sys.executable, "-m", "tests.bench.ingest", "--part", "push", *words]):
            socket.recv()  # the producer is up and has made its content
            began = time.perf_counter()
            for _ in range(count):
                data = socket.recv()
                if as_lists:
                    msgspec.msgpack.decode(data)
            return count * together * tokens / (time.perf_counter() - began) / 1e6


def push(address: str, tokens: int, together: int, count: int, kind: str) -> None:
    """The producer of `pushed`; messages are encoded one by one, as real ones are."""
    said = trajectory(tokens)
    message = SubmitPlays((ended("e000000-0u000", said, 1.0),) * together)
    arrays = {"ids": unpack_ids(said.ids), "mask": unpack_mask(said), "logprobs": unpack_floats(said.logprobs)}
    lists = [{name: array.tolist() for name, array in arrays.items()}] * together
    encoder = msgspec.msgpack.Encoder()
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.connect(address)
        socket.send(b"up")
        for _ in range(count):
            socket.send(encode(message) if kind == "bytes" else encoder.encode(lists))


def put(tokens: int, together: int, count: int, durability: str) -> float:
    """Mtoken/s of bare puts of the same trajectories, a message's to a transaction."""
    value = msgspec.msgpack.encode(trajectory(tokens))
    with (
        tempfile.TemporaryDirectory() as folder,
        lmdb.open(folder, map_size=2 << 30, sync=durability == "sync") as environment,
    ):
        began = time.perf_counter()
        for start in range(0, count * together, together):
            with environment.begin(write=True) as transaction:
                for index in range(start, start + together):
                    transaction.put(f"p{index:08}".encode(), value)
        return count * together * tokens / (time.perf_counter() - began) / 1e6


def insert(tokens: int, together: int, count: int, durability: str) -> float:
    """Mtoken/s of inserts into SQLite, a message's to a transaction."""
    value = msgspec.msgpack.encode(trajectory(tokens))
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(sqlite3.connect(Path(folder, "plays.db"), isolation_level=None)) as database,
    ):
        database.execute("PRAGMA journal_mode=WAL")
        database.execute(f"PRAGMA synchronous={'FULL' if durability == 'sync' else 'OFF'}")
        database.execute("CREATE TABLE plays (id TEXT PRIMARY KEY, trajectory BLOB) WITHOUT ROWID")
        began = time.perf_counter()
        for start in range(0, count * together, together):
            database.execute("BEGIN IMMEDIATE")
            rows = [(f"p{index:08}", value) for index in range(start, start + together)]
            database.executemany("INSERT INTO plays VALUES (?, ?)", rows)
            database.execute("COMMIT")
        return count * together * tokens / (time.perf_counter() - began) / 1e6


def measure(durability: str, rounds: int) -> dict[str, dict[str, float]]:
    """Medians over the rounds, by shape."""
    figures = {}
    for name, shape in SHAPES.items():
        jobs = {
            "ours": lambda _, s=shape: ours(*s, durability),
            "(a) PUSH/PULL": lambda _, s=shape: {"(a) PUSH/PULL": pushed(*s, as_lists=False)},
            "(b) LMDB puts": lambda _, s=shape: {"(b) LMDB puts": put(*s, durability)},
            "(c) lists, no ack": lambda _, s=shape: {"(c) lists, no ack": pushed(*s, as_lists=True)},
            "(d) SQLite": lambda _, s=shape: {"(d) SQLite": insert(*s, durability)},
        }
        figures[name] = {}
        for rows in in_turns(jobs, rounds).values():
            figures[name] |= medians(rows)
        slower = min(figures[name]["(a) PUSH/PULL"], figures[name]["(b) LMDB puts"])
        figures[name]["of the slower of (a), (b)"] = figures[name]["Mtoken/s"] / slower
        figures[name]["of (d) SQLite"] = figures[name]["Mtoken/s"] / figures[name]["(d) SQLite"]
    return figures


def main() -> None:
    parser = command(__doc__, rounds=5, out=Path("ingest.json"))
    parser.add_argument("--durability", choices=["sync", "nosync"], default="sync")
    parser.add_argument("--part", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    match arguments.part:
        case ["produce", address, path, *shape]:
            print(json.dumps(trio.run(produce, address, load(path), *map(int, shape))))
        case ["push", address, tokens, together, count, kind]:
            push(address, int(tokens), int(together), int(count), kind)
        case _:
            figures = measure(arguments.durability, arguments.rounds)
            conclude(arguments.out, figures, sections(figures))


if __name__ == "__main__":
    main()
