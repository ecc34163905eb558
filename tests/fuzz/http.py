"""Fire broken HTTP at a real gateway, open many connections at it, and see whom it still serves.

    python -m tests.fuzz.http --minutes 1 --count 10000

Exit code 1 where the gateway ended, met an error that nobody foresaw, or gave a client no answer meanwhile.
"""

import resource
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace

import trio

from spade.config import load
from spade.protocol import GetStatus
from tests.actors.gateway.clients import Served, free_port
from tests.actors.small_services import SmallReplay, byte_tokenizer, says, service
from tests.bench.harness import command
from tests.fuzz.targets import Target
from tests.peers import connected, supervised

CHAT = b'{"messages": [{"role": "user", "content": "go"}], "max_tokens": 4, "n": 2}'
WHOLE = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(CHAT), CHAT)
)
CHUNKED = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(CHAT), CHAT)
)
MODELS = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
UPGRADE = (
    b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
H2C = (
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAMAAABk\r\n\r\n"
)
H2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x04\x01\x05\0\0\0\x01\x82\x84\x86\x41"
SEEDS = (WHOLE, CHUNKED, MODELS, UPGRADE, H2C, H2, MODELS * 20, WHOLE + b"\0" * 99)
PIECES = (
    b"\r\n", b"\r", b"\n", b"\0", b"\xff\xfe", b": ", b"Content-Length: 99999999999999999999\r\n",
    b"Content-Length: -1\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: evil\r\n", b"Expect: 100-continue\r\n",
    b"%00%ff%2f", b"A" * 20_000, b"ffffffffffffffff\r\n", b'"\\ud800"', b"[" * 2_000, b"1e999", b"HTTP/9.9",
)  # fmt: skip


def broken(random: Random) -> bytes:
    """A request with something done to its bytes."""
    data = bytearray(random.choice(SEEDS))
    for _ in range(random.choice((0, 1, 1, 2, 5))):
        at = random.randrange(len(data) + 1)
        match random.randrange(5):
            case 0:
                data[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                del data[at:]
            case 2:
                del data[at : at + random.randint(1, 30)]
            case 3:
                data[at:at] = random.choice(PIECES)
            case 4:
                data[at:at] = data[: random.randrange(len(data) + 1)]
    return bytes(data)


async def fire(port: int, data: bytes, wait_s: float) -> None:
    """Send it on a connection of its own and read for a while what comes."""
    with suppress(OSError, trio.BrokenResourceError), trio.move_on_after(wait_s):
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(data)
            while await stream.receive_some(65_536):
                pass


@asynccontextmanager
async def gateway(run: Path) -> AsyncIterator[tuple[Target, Served]]:
    """A replay service and a gateway in processes of their own, and an engine of few words in this one."""
    tokenizer = byte_tokenizer(run)
    port = free_port()
    settings = load("nano", (f"model.path={str(run)!r}", f"serve.address=127.0.0.1:{port}", "serve.name='small'"))
    address = f"ipc://{run}/replay"
    async with supervised(run, settings, "replay", "gateway") as supervisor:
        talk = says(tokenizer, lambda _: "left")
        async with service("engine", "engine-0", SimpleNamespace(address=address), settings, talk):
            served = Served(port, [], SmallReplay())
            await asked(served, 60)
            yield Target("gateway", run, supervisor), served
            async with connected(address, settings, "observer") as client:
                status = await client.call(GetStatus())
            gauges = {process.name: process.gauges for process in status.processes}
            assert gauges["gateway"]["request_faults"] == 0, "an error that nobody foresaw; see logs/gateway.log"


@contextmanager
def held(port: int, count: int, random: Random) -> Iterator[None]:
    """Connections that say nothing, half of a head, or half of a body, and stay."""
    opened = []
    try:
        for _ in range(count):
            peer = socket.socket()
            peer.setblocking(False)
            peer.connect_ex(("127.0.0.1", port))
            opened.append(peer)
        for peer in opened:
            with suppress(OSError):
                peer.send(random.choice((b"", WHOLE[:40], WHOLE[:-9])))
        yield
    finally:
        for peer in opened:
            peer.close()


async def asked(served: Served, within_s: float) -> float:
    """Seconds until a client of good manners has its answer; tries again as those do."""
    began = trio.current_time()
    with trio.fail_after(within_s):
        while True:
            with suppress(Exception):
                if (await served.chat("go"))["choices"]:
                    return trio.current_time() - began
            await trio.sleep(0.1)


async def main(minutes: float, count: int, seed: int) -> bool:
    """True where all went well."""
    random = Random(seed)
    with tempfile.TemporaryDirectory() as name:
        async with gateway(Path(name)) as (target, served):
            before, fired = (target.resident_bytes(), target.descriptors()), 0
            with trio.move_on_after(60 * minutes):
                while True:
                    async with trio.open_nursery() as nursery:
                        for _ in range(50):
                            nursery.start_soon(fire, served.port, broken(random), 0.2)
                            fired += 1
            first_s = await asked(served, 60)
            print(f"{fired} broken requests: {_figures(before, target)}; then an answer in {first_s:.2f} s")
            holding = held(served.port, count, random)
            await trio.to_thread.run_sync(holding.__enter__)
            meanwhile_s = await asked(served, 120)
            print(f"{count} connections: {_figures(before, target)}; meanwhile an answer in {meanwhile_s:.2f} s")
            await trio.to_thread.run_sync(holding.__exit__, None, None, None)
            return not target.restarts


def _figures(before: tuple[int, int], target: Target) -> str:
    memory, files = target.resident_bytes() / 2**20, target.descriptors()
    return (
        f"memory {before[0] / 2**20:.0f} → {memory:.0f} MiB, descriptors {before[1]} → {files}, "
        f"started again {target.restarts} times"
    )


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    given = command(__doc__, minutes=1.0, count=10_000, seed=1).parse_args()
    sys.exit(0 if trio.run(main, given.minutes, given.count, given.seed) else 1)
