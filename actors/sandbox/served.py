"""Programs that a server of OpenEnv runs. A session of the server takes the place of a child.

A sandboxed process cannot use the network, so this process holds the connection. It connects only to the servers of
`sandbox.servers`. The host sends the same frames as to a child, and a task of this process answers them. So the host's
deadlines and bounds apply.
"""

import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import msgspec
import trio

from actors.sandbox.inside.messages import LENGTH
from actors.sandbox.process import ChildProcess
from actors.sandbox.wire import OBSERVATION_BYTES
from spade.decoding import UnreadableError, try_decode
from spade.errors import format_reason, unwrap_errors
from spade.pools.served import ServedProgram
from spade.protocol import Faulted
from spade.text import as_line

if TYPE_CHECKING:
    from trio_websocket import WebSocketConnection

MESSAGE_BYTES = 4 * OBSERVATION_BYTES
CONNECT_S = 20.0
NO_SESSION = ("CAPACITY_REACHED", "FACTORY_ERROR", "SESSION_ERROR")
"""Codes of errors after which the server ends the session."""
INVALID = "VALIDATION_ERROR"
HIDDEN = {"metadata"}
"""Fields of an observation that are not shown."""


class ServerMessage(msgspec.Struct, frozen=True):
    """A message of the server."""

    type: Literal["observation", "error"]
    """The kind of the message."""
    data: dict[str, Any] = {}
    """The observation with reward and end, or the error with its code."""


def open_served(program: ServedProgram, nursery: trio.Nursery) -> ChildProcess:
    """Begin a session of the program's server. The returned process sends its requests to it. Both end together."""
    ours, theirs = socket.socketpair()
    process = ChildProcess(ours)
    nursery.start_soon(_serve, program, theirs, process)
    return process


async def _serve(program: ServedProgram, channel: socket.socket, process: ChildProcess) -> None:
    """Answer requests until the host closes the channel or the connection breaks."""
    reason = "the session is over"
    with channel:
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(channel))
        try:
            async with _connect(program.server) as connection:
                session = ServerSession(program, connection)
                while request := await _read_frame(stream):
                    answer = await _answer_in_time(session, request, stream)
                    if answer is None:
                        return
                    body = msgspec.json.encode({**answer, "nonce": request["nonce"]})
                    await stream.send_all(LENGTH.pack(len(body)) + body)
        except trio.TooSlowError:
            reason = f"no connection within {CONNECT_S:g} s"
        except Exception as error:  # on malformed data, the libraries raise many kinds of errors, some in groups
            cause: Exception = error
            while isinstance(cause, ExceptionGroup):
                cause = cause.exceptions[0]
            reason = format_reason(cause) or type(cause).__name__
            if (status := getattr(cause, "status_code", None)) is not None:  # of trio_websocket's ConnectionRejected
                reason = f"it opens no session (it answers {status})"
        finally:
            process.ended(Faulted("infrastructure", as_line(f"{program.server}: {reason}", 200)))


@asynccontextmanager
async def _connect(server: str) -> AsyncIterator["WebSocketConnection"]:
    """Open a connection to a server. It closes without a closing handshake, because a server need not answer one."""
    from trio_websocket import wrap_client_stream

    parts = urlsplit(server)
    secure = parts.scheme == "https"
    opening = partial(trio.open_ssl_over_tcp_stream, https_compatible=True) if secure else trio.open_tcp_stream
    with trio.fail_after(CONNECT_S):
        stream = await opening(str(parts.hostname), parts.port or (443 if secure else 80))
    async with stream, unwrap_errors(trio.open_nursery()) as nursery:
        with trio.fail_after(CONNECT_S):
            connection = await wrap_client_stream(
                nursery, stream, parts.netloc, f"{parts.path}/ws", max_message_size=MESSAGE_BYTES
            )
        yield connection


async def _answer_in_time(
    session: "ServerSession", request: dict[str, Any], stream: trio.SocketStream
) -> dict[str, Any] | None:
    """Answer a request. Returns None if the host closes the channel before that."""

    async def stop_with_host() -> None:
        await trio.lowlevel.wait_readable(stream.socket.fileno())
        watch.cancel()

    answer = None
    with trio.CancelScope() as watch:
        async with unwrap_errors(trio.open_nursery()) as nursery:
            nursery.start_soon(stop_with_host)
            answer = await session.answer(request)
    return answer


async def _read_frame(stream: trio.SocketStream) -> dict[str, Any]:
    """Read a request of the host. Returns {} if the host closed the channel."""
    data = b""
    while len(data) < LENGTH.size or len(data) < LENGTH.size + LENGTH.unpack_from(data)[0]:
        more = await stream.receive_some()
        if not more:
            return {}
        data += more
    request: dict[str, Any] = msgspec.json.decode(data[LENGTH.size :])
    return request


class LostSessionError(Exception):
    """The server ended the session or did not begin one. The text is the server's reason."""


class ServerSession:
    """One session of a server, with one episode."""

    def __init__(self, program: ServedProgram, connection: "WebSocketConnection") -> None:
        self._program = program
        self._connection = connection
        self._shown = ""

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer this request as a child would. Raises LostSessionError if the server ends the session."""
        match request["do"]:
            case "load":
                return {"is": "loaded", "name": self._program.name}
            case "solve":
                return {"is": "solved", "actions": None}
            case "reset":
                return await self._exchange("reset", {**self._program.start, "seed": request["seed"]})
            case "step":
                try:
                    action = self._read_action(request["action"])
                except ValueError:
                    return self._refuse("it cannot be read")
                return await self._exchange("step", action)
        return _blame("protocol", f"a server has no answer to {request['do']!r}")

    def _read_action(self, text: str) -> dict[str, Any]:
        """Convert a text into an action of the server. Raises ValueError if the text cannot be read."""
        if self._program.action and self._program.plain:
            return {self._program.action: text}
        try:
            value = try_decode(msgspec.json.decode, text.encode())
        except UnreadableError as error:
            raise ValueError(str(error)) from None
        if self._program.action:
            return {self._program.action: value}
        if not isinstance(value, dict):
            raise ValueError("an action is an object")
        return value

    async def _exchange(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        await self._connection.send_message(msgspec.json.encode({"type": kind, "data": data}).decode())
        try:
            text: str | bytes = await self._connection.get_message()
            message = try_decode(_messages.decode, text.encode() if isinstance(text, str) else text)
        except UnreadableError as error:
            return _blame("protocol", f"the message of the server cannot be read: {error}")
        return self._show(message.data) if message.type == "observation" else self._read_error(kind, message.data)

    def _read_error(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        """Convert an error of the server into an answer. If it says that the action was invalid, the episode goes on.

        Raises LostSessionError if the server ends the session.
        """
        code, reason = data.get("code"), as_line(str(data.get("message")), 200)
        if code in NO_SESSION:
            raise LostSessionError(reason)
        return self._refuse(reason) if (kind, code) == ("step", INVALID) else _blame("exception", reason)

    def _refuse(self, reason: str) -> dict[str, Any]:
        text = f"The action does not count: {reason}.\n{self._shown}"
        return {"is": "observed", "text": text, "reward": 0.0, "terminated": False, "truncated": False}

    def _show(self, data: dict[str, Any]) -> dict[str, Any]:
        """Convert an observation of the server into an answer."""
        observation, reward, done = data.get("observation"), data.get("reward"), data.get("done") is True
        paid = 0 if reward is None else reward
        if not (isinstance(observation, dict) and isinstance(paid, int | float) and abs(paid) <= sys.float_info.max):
            return _blame("protocol", "the server's message has no observation, or its reward is not a finite number")
        field = self._program.observation
        shown = observation.get(field) if field else {name: observation[name] for name in observation.keys() - HIDDEN}
        text = shown if isinstance(shown, str) else msgspec.json.encode(shown, order="sorted").decode()
        self._shown = "\n".join(filter(None, (text, self._program.note)))
        cut = done and observation.get("truncated") is True
        return {
            "is": "observed", "text": self._shown, "reward": float(paid), "terminated": done and not cut,
            "truncated": cut,
        }  # fmt: skip


def _blame(kind: str, detail: str) -> dict[str, Any]:
    return {"is": "fault", "kind": kind, "stage": "play", "detail": detail}


_messages: msgspec.json.Decoder[ServerMessage] = msgspec.json.Decoder(ServerMessage)
