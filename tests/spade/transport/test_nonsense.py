"""Peers and servers that speak nonsense, or too much."""

import pytest
import trio
import trio.testing
import zmq

from spade.codec import encode
from spade.config import Bus
from spade.errors import RefusedError
from spade.protocol import CloseEpisode, Done, Heartbeat, Observed, OpenEpisode, Ready, Refused, Rehello, StepEpisode
from spade.transport import WINDOW, connect, serve
from tests.spade.transport.ends import BUS, DIGEST, echo, frames, hello, pair, raw, read


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
    bus = Bus(heartbeat_s=0.05, silence_s=5.0, call_deadline_s=10.0, max_message_bytes=4_096)
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
            for number in range(2, 2 * WINDOW + 3):
                peer.send_multipart(frames(number, encode(CloseEpisode("e"))))
            assert isinstance((await read(peer))[1], Ready)
            number, answer = await read(peer)
            assert number == 2 * WINDOW + 2
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
                with pytest.raises(RefusedError, match="makes no sense"):
                    await client.call(StepEpisode("e", 1, ""))
                assert await client.call(OpenEpisode("e", "", 1, 1)) == Observed("s")
                assert client.dropped == 2
