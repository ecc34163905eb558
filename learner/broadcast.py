"""Published weights over the bus, part by part, for engines on hosts that do not see the learner's folder."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from spade.config import Config, digest
from spade.manifest import MANIFEST, PARAMETERS
from spade.protocol import GetWeights, Refused, Response, WeightsPart
from spade.transport import Server, serve
from spade.transport.pump import background

FILES = (PARAMETERS, MANIFEST, "canary.json", "config.json")
_DIGEST = re.compile(r"[0-9a-f]{32}")


@asynccontextmanager
async def broadcast(bind: str | None, root: Path, config: Config) -> AsyncIterator[str | None]:
    """Serve the folders of `root` at `bind` for the length of the block; gives the address (None: of nowhere)."""
    if bind is None:
        yield None
        return
    async with serve(bind, digest=digest(config), bus=config.bus) as server:
        most = config.bus.max_message_bytes // 2  # the message is a little more than its data
        async with background(partial(_answer, server, root, most)):
            yield server.address


async def _answer(server: Server, root: Path, most: int) -> None:
    """One part after the other: however many ask, one part is in memory beside what is being sent."""
    while True:
        incoming = await server.receive()
        match incoming.message:
            case GetWeights() as request:
                response = await trio.to_thread.run_sync(part, root, request, most)
            case other:
                response = Refused(f"the learner does not serve {type(other).__name__}")
        await server.reply(incoming, response)


def part(root: Path, request: GetWeights, most: int) -> Response:
    """What was asked for, cut to `most` bytes; Refused where these weights are not, or no longer, here."""
    if not _DIGEST.fullmatch(request.digest) or request.file not in FILES:
        return Refused(f"there are no published weights {request.digest!r} with a file {request.file!r}")
    if request.offset < 0 or request.count < 1:
        return Refused(f"{request.count} bytes from {request.offset} are no part of a file")
    try:
        with (root / request.digest / request.file).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(min(request.offset, size))
            return WeightsPart(file.read(min(request.count, most)), size)
    except FileNotFoundError:
        return Refused(f"weights {request.digest} are not here: newer ones have been published since")
