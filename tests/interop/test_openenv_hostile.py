"""Servers that break the protocol of OpenEnv: a play of theirs is a fault, and the sandbox goes on."""

import base64
import hashlib
import json
from contextlib import suppress
from functools import partial

import pytest
import trio

from actors.sandbox import open_sandbox
from spade.config import Sandbox
from spade.protocol import Faulted, Observed

SOURCE = "class CounterEnv(OpenEnvServerEnv):\n    server = {server!r}\n    action = 'text'\n"
GREETING = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
TEXT, CLOSE = 0x81, 0x88


def make_observation(observation, reward="0"):
    return f'{{"type": "observation", "data": {{"observation": {observation}, "reward": {reward}, "done": false}}}}'


HANDSHAKES = {
    "noise": b"\x00\xff" * 100,
    "a redirect": b"HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    "a page": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "another key": GREETING + b"aaaa\r\n\r\n",
    "a long line": b"HTTP/1.1 101 S\r\nX: " + b"a" * 300_000,
}
MESSAGES = {
    "no JSON": "hello",
    "a reward of 400 digits": make_observation('{"text": "x"}', "1" + "0" * 400),
    "an infinite reward": make_observation('{"text": "x"}', "1e400"),
    "no number": make_observation('{"text": "x"}', "NaN"),
    "a lone surrogate": make_observation(r'{"text": "\ud800"}'),
    "a list": make_observation("[1]"),
    "a deep list": make_observation('{"x": ' + "[" * 5_000 + "]" * 5_000 + "}"),
    "a long text": make_observation(json.dumps({"text": "a" * 1_000_000})),
    "a code that is an object": '{"type": "error", "data": {"code": {"a": 1}, "message": ["x"]}}',
}


async def greet(stream):
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive_some()
    [key] = [line.split(b": ")[1] for line in data.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key")]
    proof = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
    await stream.send_all(GREETING + base64.b64encode(proof) + b"\r\n\r\n")


async def answer_first(data, stream):
    """Answer the handshake with these bytes."""
    await stream.receive_some()
    await stream.send_all(data)


async def answer_reset(message, stream, kind=TEXT):
    """Answer the first message with this one."""
    await greet(stream)
    await stream.receive_some()
    data = message.encode()
    size = len(data)
    wide = 0 if size < 126 else 2 if size < 1 << 16 else 8
    length = size.to_bytes(1) if not wide else (b"\x7e" if wide == 2 else b"\x7f") + size.to_bytes(wide)
    await stream.send_all(bytes([kind]) + length + data)
    await trio.sleep(1)


async def say_nothing(stream):
    await greet(stream)
    await trio.sleep_forever()


async def flood(stream):
    """Begin a message of 8 EiB, and send as much of it as is taken."""
    await greet(stream)
    await stream.receive_some()
    await stream.send_all(b"\x81\x7f" + ((1 << 63) - 1).to_bytes(8))
    while True:
        await stream.send_all(b"a" * (1 << 20))


async def drip(stream):
    """Send a message of a megabyte, a byte at a time."""
    await greet(stream)
    await stream.receive_some()
    await stream.send_all(b"\x81\x7f" + (1 << 20).to_bytes(8))
    while True:
        await stream.send_all(b"a")
        await trio.sleep(0.01)


def play(answer, **limits):
    """Begin an episode with a server that answers so, and one with a good server. Return both answers."""

    async def guard(stream):
        with suppress(trio.BrokenResourceError):
            await answer(stream)

    async def run():
        async with trio.open_nursery() as nursery:
            sides = (guard, partial(answer_reset, make_observation('{"text": "x"}')))
            addresses = []
            for side in sides:
                [listener] = await nursery.start(partial(trio.serve_tcp, side, 0, host="127.0.0.1"))
                addresses.append(f"http://127.0.0.1:{listener.socket.getsockname()[1]}")
            within = Sandbox(servers=tuple(addresses), **limits)
            with trio.fail_after(30):
                async with open_sandbox(within) as sandbox:
                    answers = [
                        await sandbox.open(address, SOURCE.format(server=address), 1, 9) for address in addresses
                    ]
            nursery.cancel_scope.cancel()
        return answers

    return trio.run(run)


@pytest.mark.parametrize("name", HANDSHAKES)
def test_a_handshake_that_is_none_is_a_fault(name):
    bad, good = play(partial(answer_first, HANDSHAKES[name]))
    assert isinstance(bad, Faulted)
    assert bad.kind == "infrastructure"
    assert "b'" not in bad.detail, "it is for people"
    assert isinstance(good, Observed)


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_that_is_no_observation_is_a_fault(name):
    bad, good = play(partial(answer_reset, MESSAGES[name]))
    assert isinstance(bad, Faulted)
    assert isinstance(good, Observed)


def test_a_server_that_ends_the_session_is_a_fault():
    bad, good = play(partial(answer_reset, "", kind=CLOSE))
    assert isinstance(bad, Faulted)
    assert isinstance(good, Observed)


@pytest.mark.parametrize("answer", [say_nothing, flood, drip])
def test_a_server_that_never_ends_its_answer_is_a_fault(answer):
    bad, good = play(answer, load_s=1.0, step_s=1.0)
    assert isinstance(bad, Faulted)
    assert bad.kind in ("infrastructure", "timeout")
    assert isinstance(good, Observed)
