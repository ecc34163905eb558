"""Serve published weights to hosts that do not see the learner's folder, and commands to the learner's ranks."""

import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import trio

from spade.config import Config, compute_digest
from spade.disk import hold, is_out_of_descriptors
from spade.errors import format_reason
from spade.policy.manifest import PARAMETERS
from spade.policy.parts import check_request, read_part
from spade.protocol import GetWeights, Hello, Refused, Response, WeightsPart
from spade.transport import Server, serve
from spade.transport.pump import run_in_background

if TYPE_CHECKING:
    from learner.backends.ranks import Ranks  # imports torch, which commands that only serve weights do not need

log = logging.getLogger(__name__)


@asynccontextmanager
async def broadcast(
    bind: str | None, root: Path, config: Config, ranks: "Ranks | None" = None
) -> AsyncIterator[str | None]:
    """During the block, serve the weights in `root`, and the commands to `ranks`, at `bind`. Yields the address.

    If `bind` is None, serves nothing and yields None.
    """
    if bind is None:
        yield None
        return
    async with serve(bind, digest=compute_digest(config), bus=config.bus) as server:
        most = config.bus.max_message_bytes // 2  # leave room, because a message is a little larger than its data
        async with (
            run_in_background(partial(_answer, server, root, most)),
            ranks.served(server) if ranks else nullcontext(),
        ):
            yield server.address


class Holds:
    """Protects weights that peers are fetching from deletion, until the peer asks for other weights or is gone."""

    def __init__(self) -> None:
        self._files: dict[Hello, BinaryIO] = {}

    async def keep(self, peer: Hello, file: Path) -> None:
        """Protect the folder of `file` for `peer`, and release its earlier folder. Ignores a `file` that is gone."""
        if peer not in self._files or self._files[peer].name != str(file):
            self._let_go(peer)
            with suppress(FileNotFoundError):
                self._files[peer] = await trio.to_thread.run_sync(hold, file)

    def keep_only(self, peers: Collection[Hello]) -> None:
        """Release the weights of all peers but these."""
        for peer in [peer for peer in self._files if peer not in peers]:
            self._let_go(peer)

    def _let_go(self, peer: Hello) -> None:
        if peer in self._files:
            self._files.pop(peer).close()


async def _answer(server: Server, root: Path, most: int) -> None:
    """Answer requests one after the other, so that only one part is in memory besides the parts being sent."""
    holds = Holds()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_forget_gone, server, holds)
            while True:
                incoming = await server.receive()
                match incoming.message:
                    case GetWeights() as request:
                        response = await _answer_request(holds, incoming.hello, root, request, most)
                    case other:
                        response = Refused(f"the learner does not serve {type(other).__name__}")
                await server.reply(incoming, response)
    finally:
        holds.keep_only(())


async def _answer_request(holds: Holds, peer: Hello, root: Path, request: GetWeights, most: int) -> Response:
    """Answer a peer's request, and protect the requested weights from now on."""
    if refused := check_request(request):
        return refused
    try:
        response = await trio.to_thread.run_sync(read_part, root / request.digest, request, most)
        if isinstance(response, WeightsPart):
            await holds.keep(peer, root / request.digest / PARAMETERS)
    except OSError as error:
        if not is_out_of_descriptors(error):
            raise
        log.error("cannot send weights to %s: %s; too many connections are open", peer.name, format_reason(error))
        return Refused("the learner has no file descriptors left; ask for newer weights")
    return response


async def _forget_gone(server: Server, holds: Holds) -> None:
    async for _ in server.gone:
        holds.keep_only(server.peers.values())
