"""The bus against real sockets, and against servers that are really killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
import zmq

from spade.codec import decode_response, encode
from spade.config import Bus
from spade.errors import BusError, RefusedError, SuspectError
from spade.protocol import (
    PROTOCOL_VERSION,
    CloseEpisode,
    Done,
    Heartbeat,
    Hello,
    NotYet,
    Observed,
    OpenEpisode,
    Peer,
    Pulse,
    Ready,
    Refused,
    Rehello,
    ReleasePlay,
    Response,
    Status,
    StepEpisode,
    Weights,
)
from spade.transport import Client, Server, connect, serve
from spade.transport.pump import Pump

BUS = Bus(heartbeat_s=0.05, silence_s=5.0, call_deadline_s=60.0, window=8)
HASTY = Bus(heartbeat_s=0.05, silence_s=0.5, call_deadline_s=60.0, window=8)
QUIET = Bus(heartbeat_s=100.0, silence_s=300.0, window=8)  # no beat is under way when a caller leaves
DIGEST = "d" * 32


def hello(name: str = "agent-0", digest: str = DIGEST, protocol: int = PROTOCOL_VERSION) -> Hello:
    return Hello(protocol, digest, "agent", name, os.getpid())


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/s"


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


# ---------------------------------------------------------------- calls


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
        for index in range(BUS.window + 3):
            nursery.start_soon(client.call, CloseEpisode(str(index)))
        held = [await server.receive() for _ in range(BUS.window)]
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
            for index in range(2 * BUS.window):
                nursery.start_soon(client.call, StepEpisode("cancelled", index, ""))
            abandoned = await server.receive()
            nursery.cancel_scope.cancel()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(echo, server)
            await server.reply(abandoned, Observed("too late"))
            for _ in range(2 * BUS.window):  # every place of the window is free again
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


# ---------------------------------------------------------------- pulses, pushes, departures


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
    patient = Bus(silence_s=300.0, window=8)
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


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(("stranger", "reason"), [
    (hello(digest="e" * 32), "another configuration .* start it with the run's config.toml"),
    (hello(protocol=PROTOCOL_VERSION + 1), f"speaks protocol {PROTOCOL_VERSION + 1}, this service"),
])  # fmt: skip
async def test_a_stranger_is_refused_with_the_reason(address: str, stranger: Hello, reason: str) -> None:
    async with serve(address, digest=DIGEST, bus=BUS) as server:
        with pytest.raises(RefusedError, match=reason):
            async with connect(address, stranger, bus=BUS):
                raise AssertionError("must not get in")
        assert not server.peers


async def test_the_service_has_the_last_word(address: str) -> None:
    async with serve(address, digest=DIGEST, bus=BUS, ready=lambda hello: Refused("draining")):
        with pytest.raises(RefusedError, match="draining"):
            async with connect(address, hello(), bus=BUS):
                raise AssertionError("must not get in")


async def test_a_server_that_comes_back_as_another_run_refuses_what_is_open(address: str) -> None:
    async with trio.open_nursery() as nursery:
        async with serve(address, digest=DIGEST, bus=BUS) as server:
            client = await nursery.start(hold_client, address)
            nursery.start_soon(expect_refusal, client)
            await server.receive()
        async with serve(address, digest="e" * 32, bus=BUS):
            with pytest.raises(RefusedError, match="another configuration"):
                await wait_for_ever(client)
            with pytest.raises(RefusedError, match="another configuration"):
                await client.call(CloseEpisode("later"))
        nursery.cancel_scope.cancel()


async def hold_client(address: str, bus: Bus = BUS, *, task_status: trio.TaskStatus[Client]) -> None:
    async with connect(address, hello(), bus=bus) as client:
        task_status.started(client)
        await trio.sleep_forever()


async def wait_for_ever(client: Client) -> None:
    while True:
        await client.wait_pulse()


async def expect_refusal(client: Client) -> None:
    with pytest.raises(RefusedError, match="another configuration"):
        await client.call(CloseEpisode("open"))


async def test_an_unreachable_service_is_an_error_at_the_deadline(address: str) -> None:
    with pytest.raises(BusError, match=r"no answer within 0\.2 s; is the service running\?"):
        async with connect(address, hello(), bus=Bus(call_deadline_s=0.2)):
            raise AssertionError("must not get in")


@pytest.mark.parametrize(("bind", "reason"), [
    ("nonsense", "is not an address; write ipc://PATH or tcp://HOST:PORT"),
    ("ipc:///no/such/folder/s", "cannot listen there: No such file"),
    (f"ipc:///tmp/{'x' * 200}", "cannot listen there: File name too long"),
])  # fmt: skip
async def test_addresses_that_cannot_be_served(bind: str, reason: str) -> None:
    with pytest.raises(BusError, match=reason):
        async with serve(bind, digest=DIGEST, bus=BUS):
            raise AssertionError("must not listen")


async def test_an_address_that_is_none() -> None:
    with pytest.raises(BusError, match="ipc://: cannot connect: Invalid argument"):
        async with connect("ipc://", hello(), bus=BUS):
            raise AssertionError("must not connect")


# ---------------------------------------------------------------- nonsense


async def test_nonsense_is_counted_and_answered_where_it_can_be(address: str) -> None:
    async with pair(address) as (server, client), trio.open_nursery() as nursery:
        nursery.start_soon(echo, server)
        with raw(address) as peer:
            peer.send(b"one frame")
            peer.send_multipart([b"short", encode(Heartbeat())])
            peer.send_multipart([b"12345678", encode(Heartbeat()), b"one too many"])
            peer.send_multipart(frames(0, encode(Heartbeat())))
            peer.send_multipart(frames(1, b"\xc1"))
            number, answer = await read(peer)
            assert number == 1
            assert isinstance(answer, Refused)
            peer.send_multipart(frames(2, encode(Done())))  # a response, not a request
            assert isinstance((await read(peer))[1], Refused)
            peer.send_multipart(frames(3, b"\x91" * 100_000))  # nested deeply
            assert isinstance((await read(peer))[1], Refused)
            peer.send_multipart(frames(4, encode(CloseEpisode("before hello"))))
            assert await read(peer) == (4, Rehello())
        assert server.dropped == 7
        assert await client.call(StepEpisode("e", 1, "well")) == Observed("well")
        nursery.cancel_scope.cancel()


async def test_frames_over_the_limit_are_refused_before_they_are_read(address: str) -> None:
    bus = Bus(heartbeat_s=0.05, silence_s=5.0, call_deadline_s=10.0, window=8, max_message_bytes=4_096)
    async with pair(address, bus) as (server, client), trio.open_nursery() as nursery:
        nursery.start_soon(echo, server)
        with raw(address) as peer:
            # Of whole frames under the limit, more than a message may have: never decoded, so not refused in words.
            peer.send_multipart([*frames(1, encode(StepEpisode("e", 1, "x" * 3_000))), b"x" * 3_000])
            peer.send_multipart(frames(2, encode(Heartbeat())))
            assert await read(peer) == (2, Rehello())
            assert server.dropped == 1
        with raw(address, RECONNECT_IVL=-1) as peer:
            peer.send_multipart(frames(1, encode(StepEpisode("e", 1, "x" * 5_000))))  # ends the connection
            peer.send_multipart(frames(2, encode(Heartbeat())))
            peer.rcvtimeo = 500
            with pytest.raises(zmq.Again):
                await read(peer)
        assert server.dropped == 1
        assert await client.call(StepEpisode("e", 1, "well")) == Observed("well")
        nursery.cancel_scope.cancel()


async def test_a_peer_beyond_its_window_is_refused(address: str) -> None:
    async with serve(address, digest=DIGEST, bus=BUS) as server:
        with raw(address) as peer:
            peer.send_multipart(frames(1, encode(hello("greedy"))))
            for number in range(2, 2 * BUS.window + 3):
                peer.send_multipart(frames(number, encode(CloseEpisode("e"))))
            assert isinstance((await read(peer))[1], Ready)
            number, answer = await read(peer)
            assert number == 2 * BUS.window + 2
            assert isinstance(answer, Refused)
        assert server.dropped == 1


async def test_a_reply_that_makes_no_sense_fails_its_call_alone(address: str) -> None:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.setsockopt(zmq.LINGER, 0)
        router.setsockopt(zmq.RCVTIMEO, 60_000)
        router.bind(address)

        def serve_by_hand() -> None:
            greeted = False  # a hello that is not answered soon is said again
            while True:
                peer, number, payload = router.recv_multipart()
                if b"Hello" in payload:
                    if not greeted:
                        router.send_multipart([peer, b"not three frames"])
                    greeted = True
                    router.send_multipart([peer, number, encode(Ready())])
                elif b"StepEpisode" in payload:
                    router.send_multipart([peer, number, b"\xc1"])
                elif b"OpenEpisode" in payload:
                    router.send_multipart([peer, number, encode(Observed("s"))])
                elif b"Goodbye" in payload:
                    return

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, serve_by_hand)
            async with connect(address, hello(), bus=BUS) as client:
                with pytest.raises(RefusedError, match="the reply makes no sense"):
                    await client.call(StepEpisode("e", 1, ""))
                assert await client.call(OpenEpisode("e", "", 1, 1)) == Observed("s")
                assert client.dropped == 2


# ---------------------------------------------------------------- servers that die


async def test_a_dead_server_is_noticed_before_it_could_be_called_silent(address: str) -> None:
    patient = Bus(heartbeat_s=0.05, silence_s=300.0, window=8)
    async with trio.open_nursery() as nursery:
        async with serve(address, digest=DIGEST, bus=patient):
            client = await nursery.start(hold_client, address, patient)
        with trio.fail_after(patient.silence_s / 5):
            while client.live:  # noqa: ASYNC110 (it tells nobody of this)
                await trio.sleep(0.01)
        with pytest.raises(BusError, match="the service cannot be reached"):
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
    bus = Bus(heartbeat_s=0.05, silence_s=0.5, window=8)
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
    turns = list(range(HASTY.window))
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
        with pytest.raises(BusError, match="the service cannot be reached"):
            await client.call(StepEpisode("e", 2, "b"), deadline_s=6 * HASTY.silence_s)
        assert not client.live
        process.send_signal(signal.SIGCONT)
        assert await client.call(StepEpisode("e", 3, "c")) == Observed("c")
        assert client.live


async def test_a_server_takes_its_socket_file_with_it_and_nobody_elses(tmp_path, address):
    """One that comes after takes the address over, also from one that has yet to leave."""
    file = tmp_path / "s"

    async def hold(task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        with trio.CancelScope() as scope:
            async with serve(address, digest=DIGEST, bus=BUS):
                task_status.started(scope)
                await trio.sleep_forever()

    async with trio.open_nursery() as servers:
        first = await servers.start(hold)
        async with trio.open_nursery() as later:
            second = await later.start(hold)
            first.cancel()
            await trio.testing.wait_all_tasks_blocked()
            async with connect(address, hello(), bus=BUS):
                assert file.is_socket()
            second.cancel()
    assert not file.exists()


async def test_a_heartbeat_that_is_too_large_is_not_kept(address: str) -> None:
    """It would be shown, and written into the metrics with each step."""
    async with pair(address) as (server, client):
        client.gauges["x" * 40_000] = 1.0
        while not server.dropped:  # noqa: ASYNC110 (it tells nobody of this)
            await trio.sleep(0.01)
        assert all(len(name) < 100 for beat in server.heartbeats.values() for name in beat.gauges)
        assert client.live


# ---------------------------------------------------------------- calls that are sent once


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
        server._give_up(first.peer, "silent")
        again = await server.receive()
        assert again.message == first.message
        await server.reply(again, Observed("a"))
    assert said == [Observed("a")]
