"""Broken HTTP, half requests and clients that stall, at a gateway in this process; it serves others meanwhile."""

from contextlib import asynccontextmanager
from random import Random

import pytest
import trio
import trio.testing

from actors.gateway import http, listening
from tests.actors.gateway.clients import gateway_settings, served
from tests.actors.small_services import byte_tokenizer
from tests.fuzz.http import H2, H2C, MODELS, WHOLE, broken, fire


@pytest.fixture
async def gateway(tmp_path, monkeypatch):
    monkeypatch.setattr(listening, "IDLE_S", 0.5)
    monkeypatch.setattr(listening, "LINGER_S", 0.2)
    monkeypatch.setattr(http, "BODY_S", 0.5)
    tokenizer = byte_tokenizer(tmp_path)
    async with served(gateway_settings(tmp_path), tokenizer) as gateway:
        yield gateway
        assert (await gateway.chat("go"))["choices"][0]["message"]["content"] == "left"
        assert await faults(gateway) == 0


async def faults(gateway):
    """Errors that nobody foresaw, by the third heartbeat from now: they are counted once between two of them."""
    heard = []
    with trio.fail_after(60):
        while len(heard) < 3:
            beats = gateway.small.server.heartbeats.values()
            heard += [beat for beat in beats if "request_faults" in beat.gauges and id(beat) not in map(id, heard)]
            await trio.sleep(0.01)  # a heartbeat raises no event here
    return heard[-1].gauges["request_faults"]


async def reply(port, *parts):
    """All that comes back, until the server closes the connection."""
    got = b""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        for part in parts:
            await stream.send_all(part)
        try:
            while data := await stream.receive_some(65_536):
                got += data
        except trio.BrokenResourceError:
            pass
    return got


async def test_broken_requests_harm_nobody(gateway):
    random = Random(3)
    for _ in range(6):
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(fire, gateway.port, broken(random), 0.3)


@asynccontextmanager
async def connected():
    """A client, and the gateway's end of its connection."""
    (listener,) = await listening.listen("127.0.0.1:0")
    async with await trio.open_tcp_stream(*listener.socket.getsockname()) as client, listener:
        stream = listening.BoundedStream(await listener.accept(), trio.CancelScope())
        yield client, stream
        await stream.aclose()


async def test_two_answers_on_one_connection_come_one_after_the_other():
    size = 8 << 20  # more than a socket holds
    async with connected() as (client, stream), trio.open_nursery() as nursery:
        nursery.start_soon(stream.send_all, b"a" * size)
        nursery.start_soon(stream.send_all, b"b" * size)
        await trio.testing.wait_all_tasks_blocked()
        got = b""
        while len(got) < 2 * size:
            got += await client.receive_some(1 << 20)
    assert got in (b"a" * size + b"b" * size, b"b" * size + b"a" * size)


async def test_an_answer_ends_before_its_connection_does():
    size = 8 << 20  # more than a socket holds
    async with connected() as (client, stream), trio.open_nursery() as nursery:
        nursery.start_soon(stream.send_all, b"a" * size)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(stream.send_eof)
        await trio.testing.wait_all_tasks_blocked()
        assert len(b"".join([part async for part in client])) == size


async def test_a_client_that_stalls_is_let_go(gateway):
    with trio.fail_after(60):
        assert await reply(gateway.port) == b""
        assert await reply(gateway.port, WHOLE[:50]) == b""
        assert (await reply(gateway.port, WHOLE[:-5])).startswith(b"HTTP/1.1 408")
        assert (await reply(gateway.port, MODELS)).startswith(b"HTTP/1.1 200")


async def test_http_2_is_not_spoken_so_that_its_streams_hold_nothing(gateway):
    """A client of HTTP/2 that says no more, or takes nothing, would have no bound of ours."""
    with trio.fail_after(60):
        assert (await reply(gateway.port, H2)).startswith(b"HTTP/1.1 404")
        assert b"HTTP/1.1 101" not in await reply(gateway.port, H2C)
        assert (await reply(gateway.port, MODELS.replace(b"Host", b"Upgrade: h2c\r\nHost"))).startswith(b"HTTP/1.1 200")


async def test_a_body_that_is_too_large_is_refused_before_it_is_read(gateway):
    head = WHOLE.partition(b"Content-Length")[0]
    with trio.fail_after(60):
        told = await reply(gateway.port, head + b"Content-Length: 999999999\r\n\r\n" + b"x" * 70_000)
        assert told.startswith(b"HTTP/1.1 413")
        chunks = b"%x\r\n%s\r\n" % (1 << 20, b"x" * (1 << 20)) * 100
        async with await trio.open_tcp_stream("127.0.0.1", gateway.port) as stream:
            await stream.send_all(head + b"Transfer-Encoding: chunked\r\n\r\n")
            with pytest.raises(trio.BrokenResourceError):
                await stream.send_all(chunks)


async def test_a_client_that_takes_nothing_is_let_go(monkeypatch):
    monkeypatch.setattr(listening, "STALLED_S", 0.05)
    ours, theirs = trio.testing.lockstep_stream_pair()
    ours.socket = None
    connection = trio.CancelScope()
    bounded = listening.BoundedStream(ours, connection)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(theirs.receive_some, 5)
        await bounded.send_all(b"taken")
    with pytest.raises(trio.BrokenResourceError, match="does not read its answer"):
        await bounded.send_all(b"left")
    assert connection.cancel_called


async def test_a_client_that_asks_on_and_takes_nothing_is_let_go(gateway, monkeypatch):
    monkeypatch.setattr(listening, "STALLED_S", 0.5)
    with trio.fail_after(60):
        with trio.socket.socket() as client:
            client.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, 2_048)
            await client.connect(("127.0.0.1", gateway.port))
            stream = trio.SocketStream(client)
            with pytest.raises(trio.BrokenResourceError):
                await stream.send_all(MODELS * 1_000_000)
