"""Ends of the bus for its tests: servers and clients of small settings, and a peer that speaks what it likes."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import trio
import trio.testing
import zmq

from spade.codec import decode_response
from spade.config import Bus
from spade.protocol import PROTOCOL_VERSION, Hello, Observed, StepEpisode
from spade.transport import Client, Server, connect, serve

BUS = Bus(heartbeat_s=0.05, silence_s=5.0, call_deadline_s=60.0)
HASTY = Bus(heartbeat_s=0.05, silence_s=0.5, call_deadline_s=60.0)
QUIET = Bus(heartbeat_s=100.0, silence_s=300.0)  # no beat is under way when a caller leaves
DIGEST = "d" * 32


def hello(name: str = "agent-0", digest: str = DIGEST, protocol: int = PROTOCOL_VERSION) -> Hello:
    return Hello(protocol, digest, "agent", name, os.getpid())


@asynccontextmanager
async def pair(address: str, bus: Bus = BUS) -> AsyncIterator[tuple[Server, Client]]:
    async with serve(address, digest=DIGEST, bus=bus) as server, connect(server.address, hello(), bus=bus) as client:
        yield server, client


async def echo(server: Server) -> None:
    while True:
        incoming = await server.receive()
        assert isinstance(incoming.message, StepEpisode)
        await server.reply(incoming, Observed(incoming.message.action))


@contextmanager
def raw(address: str, **options: int) -> Iterator[zmq.Socket[bytes]]:
    """A peer that speaks what it likes."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVTIMEO, 60_000)
        for name, value in options.items():
            socket.setsockopt(getattr(zmq, name), value)
        socket.connect(address)
        yield socket


async def read(socket: zmq.Socket[bytes]) -> tuple[int, object]:
    number, payload = await trio.to_thread.run_sync(socket.recv_multipart)
    return int.from_bytes(number, "big"), decode_response(payload)


def frames(number: int, payload: bytes) -> list[bytes]:
    return [number.to_bytes(8, "big"), payload]


async def hold_client(address: str, bus: Bus = BUS, *, task_status: trio.TaskStatus[Client]) -> None:
    async with connect(address, hello(), bus=bus) as client:
        task_status.started(client)
        await trio.sleep_forever()
