"""Connections of clients. Hypercorn speaks HTTP on each connection, and this module bounds how long a client may take.

An unforeseen error on a connection ends only this connection. In hypercorn's own server it would end the whole server.
"""

import logging
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState

from actors.links.faults import RequestFaults
from spade.errors import ConfigError

log = logging.getLogger(__name__)

IDLE_S = 10.0
"""Seconds within which a request's head must arrive. Also the longest pause between two requests."""
STALLED_S = 30.0
"""Seconds within which a client must accept a part of an answer."""
LINGER_S = 5.0
"""Most seconds to wait for the rest of a request that was answered before it had arrived as a whole."""
_PART = 1 << 16  # bytes of an answer that are sent at once
_BACKLOG = 1024  # most connections that wait in the system's queue

App = Callable[[Any, Any, Any], Awaitable[None]]


class BoundedStream:
    """A client's stream. If the client does not accept a part of an answer within STALLED_S, its connection ends.

    Two tasks may send at once: the task that sends an answer and, if the client leaves meanwhile, hypercorn.
    """

    def __init__(self, stream: trio.SocketStream, connection: trio.CancelScope) -> None:
        self._stream, self._connection = stream, connection
        self._turn = trio.Lock()
        self.socket = stream.socket
        self.receive_some = stream.receive_some
        self.aclose = stream.aclose

    async def send_all(self, data: bytes) -> None:
        async with self._turn:
            for at in range(0, len(data), _PART):
                try:
                    with trio.fail_after(STALLED_S):
                        await self._stream.send_all(data[at : at + _PART])
                except trio.TooSlowError:
                    # If the client has sent further requests, hypercorn would wait for ever for the end of this answer.
                    self._connection.cancel()
                    raise trio.BrokenResourceError("the client does not read its answer") from None

    async def send_eof(self) -> None:
        async with self._turn:
            await self._stream.send_eof()


class PlainProtocol(H11Protocol):
    """HTTP/1.1 alone. Connections of HTTP/2 would need bounds that neither hypercorn nor this module has."""

    async def _check_protocol(self, event: Any) -> None:
        """Go on in HTTP/1.1 if a client offers another protocol. Clients must expect this."""


class PlainServer(TCPServer):
    """Hypercorn's server of one connection, which speaks PlainProtocol."""

    async def _read_data(self) -> None:
        made = self.protocol.protocol
        self.protocol.protocol = PlainProtocol(
            made.app, made.config, made.context, made.task_group, made.connection_state, False, made.client,
            made.server, made.send,
        )  # fmt: skip
        await super()._read_data()


async def listen(address: str) -> list[trio.SocketListener]:
    """Open listeners at HOST:PORT. Raises ConfigError if this fails."""
    host, _, port = address.rpartition(":")
    try:
        return await trio.open_tcp_listeners(int(port), host=host.strip("[]"), backlog=_BACKLOG)
    except OSError as error:
        raise ConfigError(f"serve.address: {address}: {error.strerror or error}") from None


async def serve_clients(app: App, listeners: list[trio.SocketListener], faults: RequestFaults) -> None:
    """Serve until cancelled."""
    config = Config()
    config.accesslog, config.errorlog = None, logging.getLogger("hypercorn.error")
    config.keep_alive_timeout = IDLE_S
    config.keep_alive_max_requests = sys.maxsize
    config.include_server_header = False
    context = WorkerContext(None)

    async def talk(stream: trio.SocketStream) -> None:
        with trio.CancelScope() as scope:
            try:
                connection = ASGIWrapper(_wrap_lingering(app, scope))
                bounded: Any = BoundedStream(stream, scope)
                await PlainServer(connection, config, context, ConnectionState({}), bounded).run()
            except Exception as error:
                faults.note(HttpConnection(), error)

    async with trio.open_nursery() as nursery:
        await trio.serve_listeners(talk, listeners, handler_nursery=nursery)


class HttpConnection:
    """Stands for a connection in `RequestFaults.note`, which counts errors by the type of its first argument."""


def _wrap_lingering(app: App, scope: trio.CancelScope) -> App:
    """Wrap the application: if it answers before it has read the whole request, read the rest.

    If the rest does not arrive within LINGER_S, close the connection. Otherwise hypercorn would wait for ever.
    """

    async def lingering(request_scope: Any, receive: Callable[[], Awaitable[dict[str, Any]]], send: Any) -> None:
        read = False

        async def received() -> dict[str, Any]:
            nonlocal read
            event = await receive()
            read = read or not event.get("more_body")
            return event

        await app(request_scope, received, send)
        if not read:
            with trio.move_on_after(LINGER_S):
                while not read:
                    await received()
        if not read:
            scope.cancel()

    return lingering
