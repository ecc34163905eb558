"""Sessions over real sockets: pulses, pushes, departures, silence."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from spade.codec import encode
from spade.config import Bus
from spade.protocol import (
    CloseEpisode,
    Done,
    Faulted,
    Heartbeat,
    Hello,
    Observed,
    Peer,
    Pulse,
    Ready,
    Rehello,
    StepEpisode,
    Weights,
)
from spade.transport import Client, Server, connect, serve
from tests.spade.transport.ends import BUS, DIGEST, HASTY, QUIET, echo, frames, hello, pair, raw, read


async def test_pulses_and_gauges_travel_with_the_heartbeat(address: str) -> None:
    peer = Peer("engine", "engine-0", "ipc:///nowhere")
    weights = Weights(3, 2, "ab", "/w")

    def ready(hello: Hello) -> Ready:
        return Ready((peer,))

    async with (
        serve(address, digest=DIGEST, bus=BUS, ready=ready, pulse=lambda: Pulse((peer,), weights)) as server,
        connect(address, hello(), bus=BUS) as client,
    ):
        assert client.pulse.peers == (peer,)
        client.gauges["busy"] = 7.0
        while (pulse := await client.wait_pulse()) == Pulse((peer,)):
            pass  # of a hello that was said twice
        assert pulse == Pulse((peer,), weights)
        # The first beat may have been sent before the gauge was set.
        while [beat.gauges for beat in server.heartbeats.values()] != [{"busy": 7.0}]:
            assert await client.wait_pulse() == Pulse((peer,), weights)


async def test_pushes_are_bounded_and_the_newest_are_kept(address: str) -> None:
    async with pair(address) as (server, client):
        for start in range(1, 100, 10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call, CloseEpisode("e"))
                incoming = await server.receive()
                for version in range(start, start + 10):
                    assert await server.push(incoming.peer, Weights(version, version, "", ""))
                await server.reply(incoming, Done())  # what was pushed before has arrived before
        assert client.pushes.receive_nowait().version == 37
        assert client.pushes.statistics().current_buffer_used == 63


async def test_a_goodbye_is_a_departure_at_once(address: str) -> None:
    async with serve(address, digest=DIGEST, bus=QUIET) as server:
        async with connect(address, hello("agent-7"), bus=QUIET):
            (routing_id,) = server.peers
        with trio.fail_after(QUIET.silence_s / 5):
            assert await server.gone.receive() == (routing_id, hello("agent-7"))
        assert not server.peers
        assert not server.heartbeats


async def test_an_answer_to_a_peer_that_left_returns_false(address: str) -> None:
    async with serve(address, digest=DIGEST, bus=QUIET) as server:
        async with connect(address, hello(), bus=QUIET) as client, trio.open_nursery() as nursery:
            nursery.start_soon(client.call, CloseEpisode("e"))
            incoming = await server.receive()
            nursery.cancel_scope.cancel()
        await server.gone.receive()
        assert not await server.reply(incoming, Done())
        assert not await server.push(incoming.peer, Done())


async def test_a_silent_peer_is_given_up_and_greeted_again(address: str) -> None:
    async with serve(address, digest=DIGEST, bus=HASTY) as server:
        with raw(address) as peer:
            peer.send_multipart(frames(1, encode(hello("mute"))))
            assert isinstance((await read(peer))[1], Ready)
            _, gone = await server.gone.receive()
            assert gone.name == "mute"
            assert not server.peers
            peer.send_multipart(frames(2, encode(Heartbeat())))
            assert await read(peer) == (2, Rehello())


async def test_a_peer_that_does_not_read_is_given_up_not_waited_for(address: str) -> None:
    patient = Bus(silence_s=300.0)
    async with serve(address, digest=DIGEST, bus=patient) as server:
        with raw(address, RCVHWM=1) as peer:
            peer.send_multipart(frames(1, encode(hello("deaf"))))
            assert isinstance((await read(peer))[1], Ready)
            (routing_id,) = server.peers
            while await server.push(routing_id, Observed("x" * 100_000)):
                pass
            assert (await server.gone.receive())[1].name == "deaf"


@asynccontextmanager
async def greeting(address: str, greeted: list[str]) -> AsyncIterator[tuple[Server, Client]]:
    """A hasty server that notes whom it greets, and a client of it."""

    def ready(hello: Hello) -> Ready:
        greeted.append(hello.name)
        return Ready()

    async with (
        serve(address, digest=DIGEST, bus=HASTY, ready=ready) as server,
        connect(address, hello(), bus=HASTY) as client,
    ):
        yield server, client


async def test_a_session_without_calls_stays(address: str) -> None:
    greeted: list[str] = []
    async with greeting(address, greeted) as (server, client):
        later = trio.current_time() + 3 * HASTY.silence_s
        while trio.current_time() < later:
            await client.wait_pulse()
        assert greeted == ["agent-0"]
        with pytest.raises(trio.WouldBlock):
            server.gone.receive_nowait()


async def test_nobody_is_silent_for_the_time_we_were_away_ourselves(address: str) -> None:
    greeted: list[str] = []
    async with greeting(address, greeted) as (server, client):
        with raw(address) as peer:
            peer.send_multipart(frames(1, encode(hello("mute"))))
            assert isinstance((await read(peer))[1], Ready)
            time.sleep(2 * HASTY.silence_s)  # noqa: ASYNC251 (to block the loop is the point)
            await trio.sleep(HASTY.silence_s / 4)  # time in which to give up somebody, though less than a silence
            assert len(server.peers) == 2
            assert client.live
            assert greeted == ["agent-0", "mute"]
            assert (await server.gone.receive())[1].name == "mute"


async def test_a_heartbeat_that_is_too_large_is_not_kept(address: str) -> None:
    """It would be shown, and written into the metrics with each step."""
    async with pair(address) as (server, client):
        client.gauges["x" * 40_000] = 1.0
        while not server.dropped:  # noqa: ASYNC110 (it tells nobody of this)
            await trio.sleep(0.01)
        assert all(len(name) < 100 for beat in server.heartbeats.values() for name in beat.gauges)
        assert client.live


async def test_a_block_that_is_cancelled_may_still_use_its_connection(address: str) -> None:
    """A learner's last checkpoint takes commands to its ranks."""
    answers: list[Observed | Faulted] = []
    async with serve(address, digest=DIGEST, bus=BUS) as server, trio.open_nursery() as nursery:
        nursery.start_soon(echo, server)
        with trio.CancelScope() as leaving:
            async with connect(address, hello(), bus=BUS) as client:
                leaving.cancel()
                with trio.fail_after(60), trio.CancelScope(shield=True):
                    answers.append(await client.call(StepEpisode("e", 1, "last")))
        nursery.cancel_scope.cancel()
    assert answers == [Observed("last")]


async def test_requests_of_a_kind_may_have_an_inbox_of_their_own(address: str) -> None:
    async with pair(address) as (server, client), trio.open_nursery() as nursery:
        closings = server.apart(CloseEpisode)
        nursery.start_soon(client.call, CloseEpisode("e"))
        nursery.start_soon(client.call, StepEpisode("e", 1, "on"))
        closing, stepping = await closings.take(), await server.receive()
        assert (closing.message, stepping.message) == (CloseEpisode("e"), StepEpisode("e", 1, "on"))
        await server.reply(closing, Done())
        await server.reply(stepping, Observed("on"))
