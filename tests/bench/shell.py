"""The cost of the process around an engine to a request of its own, over the bus and back.

    python -m tests.bench.shell [--rounds 500]

One thread each, in turns. Without a model: through the engine's process with an engine that answers at once, and
through a bare ZeroMQ socket in a process that returns what it was sent, the least that another process can cost. With
the nano model, in turns again: through the engine's process; through a bare socket before the same engine in a process
of its own, whose caches are as cold; and the engine in this process.
"""

import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import quantiles

import torch
import trio
import zmq

from actors.engines.torch.engine import TorchEngine
from spade.codec import decode_request, encode, pack_ids
from spade.config import Config, compute_digest, load
from spade.policy.model import compute_parameters_digest
from spade.processes.supervise import supervise
from spade.protocol import Done, Generate, Generated, Pulse, Ready, Role, Weights
from spade.transport import Client, Server, serve
from tests.bench.engine_peers import endless, torch_engine
from tests.bench.harness import clocked, command, conclude
from tests.peers import connected, orders

REQUEST = Generate(pack_ids(list(range(3, 20))), 4, 1.0, 1)
MODULES: dict[Role, str] = {"endpoint": "tests.bench.instant", "engine": "actors.engines.server"}
WARM = 20  # rounds that are not counted


def opened(folder: str) -> TorchEngine:
    torch.set_num_threads(1)
    return torch_engine(Weights(1, 0, "", folder), rows=4)


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
            payload = encode(sampled(engine, request))
        socket.send(payload)


# ---------------------------------------------------------------- the engine's process


@asynccontextmanager
async def serving(config: Config, weights: Weights) -> AsyncIterator[tuple[Client, Client]]:
    """Connections to an engine that answers at once and to one with a model, each in the engine's process.

    Behind them is as much of a replay service as an engine needs.
    """
    with tempfile.TemporaryDirectory() as run:
        replay = f"ipc://{run}/replay"
        launches = [orders(Path(run), config, role) for role in MODULES]
        known = {"ready": lambda _: Ready((), weights), "pulse": lambda: Pulse((), weights)}
        async with (
            serve(replay, digest=compute_digest(config), bus=config.bus, **known) as server,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(reports, server)
            async with supervise(config.supervise, Path(run) / "logs", MODULES) as supervisor:
                for launch in launches:
                    await supervisor.add(launch)
                async with (
                    connected(launches[0].bind, config, "agent") as instant,
                    connected(launches[1].bind, config, "agent") as sampling,
                ):
                    yield instant, sampling
            nursery.cancel_scope.cancel()


async def reports(server: Server) -> None:
    """Take note of what it serves."""
    while True:
        await server.reply(await server.receive(), Done())


# ---------------------------------------------------------------- the rounds


async def measure(folder: str, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each round."""
    config = load("nano", ("engine.rows=4", "engine.device=cpu"))
    weights = Weights(1, 0, compute_parameters_digest(Path(folder)), folder)
    engine, payload = opened(folder), encode(REQUEST)
    taken: dict[str, list[float]] = {}

    async def in_turns(jobs: dict[str, Callable[[], object]]) -> None:
        for turn in range(WARM + rounds):
            for name, job in jobs.items():
                with clocked(taken.setdefault(name, []) if turn >= WARM else []):
                    answer = job()
                    if isinstance(answer, Awaitable):
                        await answer

    with bare(f"ipc://{folder}/echo") as echo, bare(f"ipc://{folder}/model", folder) as model:
        async with serving(config, weights) as (instant, sampling):
            await in_turns({
                "a bare socket": lambda: echo(payload), "the engine's process": lambda: instant.call(REQUEST),
            })  # fmt: skip
            await in_turns({
                "a bare socket before the model": lambda: model(payload),
                "the engine's process with the model": lambda: sampling.call(REQUEST),
                "the model in this process": lambda: sampled(engine, REQUEST),
            })  # fmt: skip
    return taken


def main() -> None:
    parser = command(__doc__, rounds=500, out=None)
    parser.add_argument("--serve", nargs=2, metavar=("ADDRESS", "FOLDER"), help="be one of the bare processes")
    arguments = parser.parse_args()
    if arguments.serve:
        serve_bare(*arguments.serve)
    with tempfile.TemporaryDirectory() as folder:
        taken = trio.run(measure, endless(Path(folder)), arguments.rounds)
    tenths = {name: quantiles(each, n=10) for name, each in taken.items()}
    figures = {name: {"p10 ms": each[0], "p50 ms": each[4]} for name, each in tenths.items()}
    lines = [f"{name:<36} p10 {row['p10 ms']:6.2f} ms, p50 {row['p50 ms']:6.2f} ms" for name, row in figures.items()]
    conclude(arguments.out, figures, "\n".join(lines))


if __name__ == "__main__":
    main()
