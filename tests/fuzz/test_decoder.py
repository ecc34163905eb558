"""The decoder of the bus: nonsense is one error, sense goes round, containers are bounded."""

import tracemalloc
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade.codec import decode_request, decode_response, encode
from spade.decoding import UnreadableError
from spade.protocol import MOST_GAUGES, MOST_ITEMS, MOST_NAME, Heartbeat, Process, ReportProcesses, Trajectory
from tests.fuzz.frames import HELLO, REQUESTS, broken


def read(data: bytes) -> None:
    for decode in (decode_request, decode_response):
        try:
            message = decode(data)
        except UnreadableError:
            continue
        assert decode(encode(message)) is not None


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    read(data)


@given(st.integers(0, 2**32))
def test_broken_frames(seed: int) -> None:
    random = Random(seed)
    whole = [encode(request) for request in REQUESTS]
    for _ in range(50):
        read(broken(random, whole))


@pytest.mark.parametrize("kind", [b"\xdd", b"\xdf", b"\xdb", b"\xc6"])
def test_a_length_that_is_a_lie_takes_no_memory(kind: bytes) -> None:
    tag = encode(Heartbeat())[:-1]  # without its empty map
    tracemalloc.start()
    for size in (2**32 - 1, 2**26, 2**20):
        with pytest.raises(UnreadableError):
            decode_request(tag + kind + size.to_bytes(4, "big") + bytes(100))
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


@pytest.mark.parametrize("depth", [10, 100_000])
@pytest.mark.parametrize("head", [b"\x91", b"\x81\xa0"])
def test_nesting_ends(head: bytes, depth: int) -> None:
    """Also in what is skipped: a field of a newer version of spade."""
    more = bytearray(encode(HELLO))
    more[0] += 1
    with pytest.raises(UnreadableError):
        decode_request(bytes(more) + head * depth)


def test_containers_are_bounded() -> None:
    many = {str(index): 1.0 for index in range(MOST_GAUGES + 1)}
    children = (Process("agent-0", "agent", 1, "ready", 0),) * (MOST_ITEMS + 1)
    long = msgspec.structs.replace(HELLO, name="x" * (MOST_NAME + 1))
    for request in (Heartbeat(many), ReportProcesses("s", children), long):
        with pytest.raises(UnreadableError, match="length <="):
            decode_request(encode(request))
    tokens = MOST_ITEMS + 1
    runs = Trajectory(bytes(4 * tokens), (0, tokens), bytes(4 * tokens), ((1, 1),) * tokens, 1.0)
    with pytest.raises(msgspec.ValidationError, match="length <="):
        msgspec.msgpack.decode(encode(runs), type=Trajectory)
