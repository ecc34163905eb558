"""What the process around an engine costs a request of its own, over the bus and back.

    python -m tests.bench.shell [--rounds 500]

Interleaved, on the nano model, one thread each: through the engine's process; through a process that has nothing but a
bare ZeroMQ socket before the same engine, which pays for another process and its cold caches just so; the engine in
this process; and two processes that send each other messages of this size and do nothing else.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import quantiles

import torch
import trio
import zmq

from actors.engines.torch import TorchEngine
from spade.codec import decode_request, encode, pack_ids
from spade.config import Config, digest, dump, load
from spade.policy.model import parameters_digest
from spade.process import Launch
from spade.protocol import PROTOCOL_VERSION, Done, Generate, Generated, Hello, Pulse, Ready, Weights
from spade.supervise import supervise
from spade.transport import Client, Server, connect, serve
from tests.bench.engine_peers import CONTEXT, endless

REQUEST = Generate(pack_ids(list(range(3, 20))), 4, 1.0, 1)
WARM = 20  # rounds that are not counted


def opened(folder: str) -> TorchEngine:
    torch.set_num_threads(1)
    weights = Weights(1, 0, "", folder)
    return TorchEngine(weights, rows=4, context_tokens=CONTEXT, kv_bytes=1 << 28, dtype="float32", device="cpu")


def sampled(engine: TorchEngine, request: Generate) -> Generated:
    engine.submit(1, request)
    while True:
        for _, generated in engine.step():
            return generated


# ---------------------------------------------------------------- bare sockets


@contextmanager
def bare(address: str, folder: str = "") -> Iterator[Callable[[bytes], bytes]]:
    """Asks a process behind a bare socket, which samples with the model in `folder`, or returns what it was sent."""
    command = [sys.executable, "-m", "tests.bench.shell", "--serve", address, folder]
    process = subprocess.Popen(command)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.REQ)
    socket.connect(address)

    def ask(payload: bytes) -> bytes:
        socket.send(payload)
        return socket.recv()

    try:
        yield ask
    finally:
        process.kill()
        process.wait()
        context.destroy(linger=0)


def serve_bare(address: str, folder: str) -> None:
    engine = opened(folder) if folder else None
    socket = zmq.Context().socket(zmq.REP)
    socket.bind(address)
    while True:
        payload = socket.recv()
        if engine is not None:
            request = decode_request(payload)
            assert isinstance(request, Generate)
            payload = encode(sampled(engine, request))
        socket.send(payload)


# ---------------------------------------------------------------- the engine's process


@asynccontextmanager
async def serving(config: Config, weights: Weights) -> AsyncIterator[Client]:
    """A connection to an engine in its process, with as much of a replay service as an engine needs."""
    with tempfile.TemporaryDirectory() as run:
        (Path(run) / "config.toml").write_text(dump(config))
        replay, address = f"ipc://{run}/replay", f"ipc://{run}/engine"
        launch = Launch("engine-0", "engine", f"{run}/config.toml", run, replay, address)
        hello = Hello(PROTOCOL_VERSION, digest(config), "agent", "agent-0", os.getpid())
        known = {"ready": lambda _: Ready("", (), weights), "pulse": lambda: Pulse((), weights)}
        async with (
            serve(replay, digest=digest(config), bus=config.bus, **known) as server,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(receipts, server)
            async with supervise(config.supervise, Path(run) / "logs") as supervisor:
                await supervisor.add(launch)
                async with connect(address, hello, bus=config.bus) as client:
                    yield client
            nursery.cancel_scope.cancel()


async def receipts(server: Server) -> None:
    """Take note of what it serves."""
    while True:
        await server.reply(await server.receive(), Done())


# ---------------------------------------------------------------- the rounds


async def measure(folder: str, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each round."""
    config = load("nano", ("engine.rows=4", "engine.device=cpu"))
    weights = Weights(1, 0, parameters_digest(Path(folder)), folder)
    engine, payload = opened(folder), encode(REQUEST)
    taken: dict[str, list[float]] = {}
    began = 0.0

    def clock(name: str) -> None:
        nonlocal began
        now = time.perf_counter()
        taken.setdefault(name, []).append(1_000 * (now - began))
        began = time.perf_counter()

    with bare(f"ipc://{folder}/echo") as echo, bare(f"ipc://{folder}/model", folder) as asked:
        async with serving(config, weights) as client:
            for _ in range(WARM + rounds):
                began = time.perf_counter()
                await client.call(REQUEST)
                clock("the engine's process")
                asked(payload)
                clock("the model behind a bare socket")
                sampled(engine, REQUEST)
                clock("the model in this process")
                echo(payload)
                clock("a bare socket")
    return {name: each[WARM:] for name, each in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--serve", nargs=2, metavar=("ADDRESS", "FOLDER"), help="be one of the bare processes")
    arguments = parser.parse_args()
    if arguments.serve:
        serve_bare(*arguments.serve)
    with tempfile.TemporaryDirectory() as folder:
        taken = trio.run(measure, endless(Path(folder)), arguments.rounds)
    tenths = {name: quantiles(each, n=10) for name, each in taken.items()}
    for name, each in tenths.items():
        print(f"{name:<32} p10 {each[0]:6.2f} ms, p50 {each[4]:6.2f} ms")
    for name, at in (("p10", 0), ("p50", 4)):
        over = tenths["the engine's process"][at] - tenths["the model behind a bare socket"][at]
        print(
            f"{name}: the shell is {over:.2f} ms, {over / tenths['a bare socket'][at]:.1f} exchanges of a bare socket"
        )


if __name__ == "__main__":
    main()
