"""A gateway between a small replay service, an engine with scripted words, and clients over real sockets."""

import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import trio

from actors.gateway import process as gateway
from spade import protocol
from spade.config import Config
from spade.tokens import Tokenizer
from tests.actors.small_services import SmallReplay, actor_settings, process, says, service, small_replay

Answering = Callable[[protocol.Generate], protocol.Response | None]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def gateway_settings(checkpoint: Path, *overrides: str) -> Config:
    """The gateway listens at a port that is free."""
    return actor_settings(checkpoint, f"serve.address=127.0.0.1:{free_port()}", 'serve.name="small"', *overrides)


class Served(NamedTuple):
    """A gateway that is up. `asked`: all that its engine heard, in order."""

    port: int
    asked: list[protocol.AnyRequest]
    small: SmallReplay

    @property
    def drawn(self) -> list[protocol.Generate]:
        return [request for request in self.asked if isinstance(request, protocol.Generate)]

    async def post(self, route: str, body: Any, **headers: str) -> httpx2.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", timeout=60) as client:
            return await client.post(
                f"/v1/{route}", content=content, headers={"content-type": "application/json", **headers}
            )

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", timeout=60) as client:
            return await client.get(path, headers=headers)

    async def chat(self, text: str, **fields: Any) -> Any:
        """The answer to one message."""
        response = await self.post("chat/completions", {"messages": [{"role": "user", "content": text}], **fields})
        return response.json()


@asynccontextmanager
async def served(
    settings: Config,
    tokenizer: Tokenizer,
    say: Callable[[str], str] = lambda _: "left",
    answer: Answering | None = None,
) -> AsyncIterator[Served]:
    """`answer` takes the place of the engine that ends its turn with what it has to `say` of a prompt."""
    asked, small = list[protocol.AnyRequest](), SmallReplay()
    answers = answer or says(tokenizer, say)

    def heard(request: protocol.AnyRequest) -> protocol.Response | None:
        asked.append(request)
        small.change()
        return protocol.Done() if isinstance(request, protocol.GiveUp) else answers(request)

    async with (
        small_replay(small, settings) as replay,
        service("engine", "engine-0", replay, settings, heard),
        process(gateway.run, "gateway", replay, settings),
    ):
        yield Served(int(settings.serve.address.rpartition(":")[2]), asked, small)


class Line:
    """A connection of one client, which asks one thing after the other; cheaper than a library's client."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._rest = b""

    async def ask(self, route: str, body: Any) -> tuple[int, Any]:
        """The status and the body of the answer. Raises EOFError where the connection ends instead."""
        data = json.dumps(body).encode()
        head = f"POST /v1/{route} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        await self._stream.send_all(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
        told = await self._until(lambda got: got.find(b"\r\n\r\n") + 4)
        headers = dict(line.lower().split(b": ", 1) for line in told[:-4].split(b"\r\n")[1:])
        content = await self._until(lambda got: size if len(got) >= (size := int(headers[b"content-length"])) else 3)
        return int(told[9:12]), json.loads(content)

    async def _until(self, end: Callable[[bytes], int]) -> bytes:
        """The beginning of what comes, as long as `end` tells; 3 and less is not yet known."""
        while (length := end(self._rest)) <= 3:
            more = await self._stream.receive_some(1 << 20)
            if not more:
                raise EOFError("the connection ended")
            self._rest += more
        part, self._rest = self._rest[:length], self._rest[length:]
        return part
