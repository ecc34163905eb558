"""Calls over real sockets: replies, refusals, deadlines, windows, limits."""

import pytest
import trio
import trio.testing

from spade.config import Bus
from spade.errors import BusError, RefusedError
from spade.protocol import (
    CloseEpisode,
    Done,
    NotYet,
    Observed,
    OpenEpisode,
    Refused,
    ReleasePlay,
    Response,
    Status,
    StepEpisode,
)
from spade.transport import WINDOW, Client, connect, serve
from tests.spade.transport.ends import DIGEST, QUIET, echo, hello, pair


@pytest.mark.parametrize("bind", ["ipc", "tcp://127.0.0.1:*", "tcp://127.0.0.1:0"])
async def test_calls_find_their_own_replies(bind: str, address: str) -> None:
    async with serve(address if bind == "ipc" else bind, digest=DIGEST, bus=QUIET) as server:
        assert not server.address.endswith(("*", ":0"))

        async def caller(name: str) -> None:
            async with connect(server.address, hello(name), bus=QUIET) as client, trio.open_nursery() as nursery:
                for start in range(20):
                    nursery.start_soon(several, client, f"{name}/{start}")

        async def several(client: Client, mark: str) -> None:
            for turn in range(5):
                assert await client.call(StepEpisode("e", turn, f"{mark}/{turn}")) == Observed(f"{mark}/{turn}")

        async with trio.open_nursery() as services:
            services.start_soon(echo, server)
            async with trio.open_nursery() as callers:
                for index in range(4):
                    callers.start_soon(caller, f"agent-{index}")
            services.cancel_scope.cancel()
    assert server.dropped == 0


async def test_incoming_names_its_peer_and_replies_may_come_in_any_order(address: str) -> None:
    async with pair(address) as (server, client), trio.open_nursery() as nursery:
        replies: dict[str, object] = {}

        async def ask(episode: str) -> None:
            replies[episode] = await client.call(StepEpisode(episode, 1, ""))

        nursery.start_soon(ask, "a")
        first = await server.receive()
        nursery.start_soon(ask, "b")
        second = await server.receive()
        assert first.hello.name == second.hello.name == "agent-0"
        assert server.peers == {first.peer: first.hello}
        assert server.receive_nowait() is None
        assert await server.reply(second, Observed(second.message.episode))
        assert await server.reply(first, Observed(first.message.episode))
        assert await server.reply(first, Observed("again"))  # a second reply to the same request is ignored
    assert replies == {"a": Observed("a"), "b": Observed("b")}


async def test_a_refusal_is_an_error_with_the_reason(address: str) -> None:
    async with pair(address) as (server, client), trio.open_nursery() as nursery:

        async def refuse() -> None:
            await server.reply(await server.receive(), Refused("no such play"))

        nursery.start_soon(refuse)
        with pytest.raises(RefusedError, match="ReleasePlay refused: no such play"):
            await client.call(ReleasePlay("x", 1))


@pytest.mark.parametrize("reply", [Done(), NotYet("no"), Status()])
async def test_a_reply_of_another_type_than_the_requests_is_an_error(reply: Response, address: str) -> None:
    async with pair(address) as (server, client), trio.open_nursery() as nursery:

        async def answer() -> None:
            await server.reply(await server.receive(), reply)

        nursery.start_soon(answer)
        with pytest.raises(BusError, match=f"answered OpenEpisode with {type(reply).__name__}"):
            await client.call(OpenEpisode("e", "", 1, 1))


async def test_no_answer_is_an_error_at_the_deadline(address: str) -> None:
    async with pair(address) as (_, client):
        with pytest.raises(BusError, match=r"CloseEpisode within 0\.1 s"):
            await client.call(CloseEpisode("x"), deadline_s=0.1)


async def test_the_window_holds_calls_back(address: str) -> None:
    async with pair(address) as (server, client), trio.open_nursery() as nursery:
        for index in range(WINDOW + 3):
            nursery.start_soon(client.call, CloseEpisode(str(index)))
        held = [await server.receive() for _ in range(WINDOW)]
        await client.wait_pulse()
        await client.wait_pulse()  # one heartbeat has gone there and back: nothing else is on its way
        assert server.receive_nowait() is None
        for incoming in held:
            await server.reply(incoming, Done())
        for _ in range(3):
            await server.reply(await server.receive(), Done())


async def test_cancelled_calls_leave_nothing_behind(address: str) -> None:
    async with pair(address) as (server, client):
        async with trio.open_nursery() as nursery:
            for index in range(2 * WINDOW):
                nursery.start_soon(client.call, StepEpisode("cancelled", index, ""))
            abandoned = await server.receive()
            nursery.cancel_scope.cancel()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(echo, server)
            await server.reply(abandoned, Observed("too late"))
            for _ in range(2 * WINDOW):  # every place of the window is free again
                assert await client.call(StepEpisode("e", 1, "fresh")) == Observed("fresh")
            nursery.cancel_scope.cancel()


async def test_messages_over_the_limit_are_refused_at_either_end(address: str) -> None:
    bus = Bus(heartbeat_s=0.05, silence_s=5.0, max_message_bytes=4_096)
    async with pair(address, bus) as (server, client), trio.open_nursery() as nursery:
        with pytest.raises(BusError, match=r"StepEpisode .* bus\.max_message_bytes = 4096"):
            await client.call(StepEpisode("e", 1, "x" * 5_000))

        async def blow_up() -> None:
            await server.reply(await server.receive(), Observed("x" * 5_000))

        nursery.start_soon(blow_up)
        with pytest.raises(RefusedError, match=r"the Observed has \d+ bytes"):
            await client.call(StepEpisode("e", 1, ""))


async def test_an_error_of_the_block_is_not_wrapped(address: str) -> None:
    with pytest.raises(ZeroDivisionError):
        async with pair(address):
            _ = 1 / 0
