"""A gateway between a small replay service, an engine with scripted words, and clients over real sockets."""

import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from actors.roles.gateway import process as gateway
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
    return actor_settings(checkpoint, f"serve.port={free_port()}", 'serve.name="small"', *overrides)


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
        yield Served(settings.serve.port, asked, small)
