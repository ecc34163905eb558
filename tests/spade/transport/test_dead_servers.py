"""Servers that are really killed, stopped and started again."""

import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
import zmq

from spade.config import Bus
from spade.errors import BusError, SuspectError
from spade.protocol import CloseEpisode, Observed, StepEpisode
from spade.transport import WINDOW, Client, connect, serve
from spade.transport.pump import Pump
from tests.spade.transport.ends import BUS, DIGEST, HASTY, hello, hold_client, pair


async def test_a_dead_server_is_noticed_before_it_could_be_called_silent(address: str) -> None:
    patient = Bus(heartbeat_s=0.05, silence_s=300.0)
    async with trio.open_nursery() as nursery:
        async with serve(address, digest=DIGEST, bus=patient):
            client = await nursery.start(hold_client, address, patient)
        with trio.fail_after(patient.silence_s / 5):
            while client.live:  # noqa: ASYNC110 (it tells nobody of this)
                await trio.sleep(0.01)
        with pytest.raises(BusError, match="cannot be reached"):
            await client.call(CloseEpisode("e"), deadline_s=0.1)
        nursery.cancel_scope.cancel()


async def test_an_arrival_is_not_lost_where_a_send_swallows_its_edge(address: str) -> None:
    arrived, arrivals = trio.open_memory_channel[list[bytes]](10)
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.setsockopt(zmq.LINGER, 0)
        router.setsockopt(zmq.RCVTIMEO, 60_000)
        router.bind(address)
        pump = Pump(zmq.DEALER, BUS, arrived.send_nowait)
        pump.connect(address)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pump.run)
            await pump.writable()
            assert pump.send([b"first"])
            peer, _ = await trio.to_thread.run_sync(router.recv_multipart)
            router.send_multipart([peer, b"reply"])
            time.sleep(0.1)  # noqa: ASYNC251 (it arrives while trio does not look)
            assert pump.send([b"second"])
            assert await arrivals.receive() == [b"reply"]
            nursery.cancel_scope.cancel()
        pump.close()


SERVER = """
import signal
import sys
import trio
from spade.config import Bus
from spade.protocol import Observed
from spade.transport import serve

async def main(address, digest, answers):
    bus = Bus(heartbeat_s=0.05, silence_s=0.5)
    async with serve(address, digest=digest, bus=bus) as server:
        with trio.open_signal_receiver(signal.SIGTERM) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(leave, signals, nursery.cancel_scope)
                print("up", flush=True)
                while True:
                    incoming = await server.receive()
                    print("got", incoming.message.turn, flush=True)
                    if answers == "yes":
                        await server.reply(incoming, Observed(incoming.message.action))

async def leave(signals, scope):
    async for _ in signals:
        scope.cancel()

trio.run(main, *sys.argv[1:])
"""


@asynccontextmanager
async def server_process(address: str, *, answers: bool) -> AsyncIterator[trio.Process]:
    command = [sys.executable, "-c", SERVER, address, DIGEST, "yes" if answers else "no"]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
    try:
        async with process.stdout:
            assert await read_lines(process, 1) == [b"up"]
            yield process
    finally:
        process.kill()
        await process.wait()


async def read_lines(process: trio.Process, count: int) -> list[bytes]:
    """The next lines of its output."""
    data = b""
    while data.count(b"\n") < count:
        byte = await process.stdout.receive_some(1)
        assert byte, "the server ended"
        data += byte
    return data.splitlines()


async def read_turns(process: trio.Process, count: int) -> list[int]:
    """The turns of the next `count` requests that the server says it got."""
    return sorted(int(line.split()[1]) for line in await read_lines(process, count))


async def test_calls_survive_the_kill_and_restart_of_their_server(address: str) -> None:
    turns = list(range(WINDOW))
    answers, answered = trio.open_memory_channel[tuple[int, object]](len(turns))

    async def ask(client: Client, turn: int) -> None:
        answers.send_nowait((turn, await client.call(StepEpisode("e", turn, f"action {turn}"), deadline_s=60)))

    async with trio.open_nursery() as nursery:
        async with server_process(address, answers=False) as first:
            client = await nursery.start(hold_client, address)
            for turn in turns:
                nursery.start_soon(ask, client, turn)
            assert await read_turns(first, len(turns)) == turns
            first.kill()
            await first.wait()
        async with server_process(address, answers=True) as second:
            assert await read_turns(second, len(turns)) == turns
            replies = dict([await answered.receive() for _ in turns])
        nursery.cancel_scope.cancel()
    assert replies == {turn: Observed(f"action {turn}") for turn in turns}


async def test_a_stopped_server_is_down_and_then_is_back(address: str) -> None:
    async with server_process(address, answers=True) as process, connect(address, hello(), bus=HASTY) as client:
        assert await client.call(StepEpisode("e", 1, "a")) == Observed("a")
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(BusError, match="cannot be reached"):
            await client.call(StepEpisode("e", 2, "b"), deadline_s=6 * HASTY.silence_s)
        assert not client.live
        process.send_signal(signal.SIGCONT)
        assert await client.call(StepEpisode("e", 3, "c")) == Observed("c")
        assert client.live


async def ask_once(client: Client, said: list[object]) -> None:
    """The outcome of a call that is to be sent once."""
    try:
        said.append(await client.call(StepEpisode("once", 1, "a"), deadline_s=60, once=True))
    except BusError as error:
        said.append(error)


@pytest.mark.parametrize("how", ["killed", "leaves"])
async def test_a_call_sent_once_is_sent_to_no_second_life_unless_the_first_left_in_order(address, how):
    said: list[object] = []
    async with trio.open_nursery() as nursery:
        async with server_process(address, answers=False) as first:
            client = await nursery.start(hold_client, address)
            nursery.start_soon(ask_once, client, said)
            await read_turns(first, 1)
            first.send_signal(signal.SIGKILL if how == "killed" else signal.SIGTERM)
            await first.wait()
        async with server_process(address, answers=True):
            # The same connection repeats repeatable requests and sends all that were never sent.
            assert await client.call(StepEpisode("again", 2, "b"), once=True) == Observed("b")
            while not said:  # noqa: ASYNC110
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    (one,) = said
    if how == "killed":
        assert isinstance(one, SuspectError)
        assert "StepEpisode" in str(one)
    else:
        assert one == Observed("a")


async def test_a_server_that_gave_its_peer_up_has_not_ended(address):
    said: list[object] = []
    async with pair(address) as (server, client), trio.open_nursery() as nursery:
        nursery.start_soon(ask_once, client, said)
        first = await server.receive()
        server.give_up(first.peer, "silent")
        again = await server.receive()
        assert again.message == first.message
        await server.reply(again, Observed("a"))
    assert said == [Observed("a")]
