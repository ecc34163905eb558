"""Use CURVE on a socket: find the addresses that need it, check a server's allow-list (ZAP), report failed handshakes.

ipc:// sockets use no keys, because the mode of their folder protects them. tcp:// sockets use keys if `bus.keys` names
a folder. Without keys, only a loopback address is allowed. libzmq asks about each handshake on an inproc socket of the
server's context (ZAP, RFC 27). It reports failed handshakes on another socket. Our tasks read both sockets, without
threads.
"""

import errno
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import trio
import zmq
from zmq.utils import z85

from spade.config import Bus, is_local
from spade.errors import BusError, ConfigError, SpadeError
from spade.transport import keys
from spade.transport.pump import Context, run_in_background
from spade.transport.rights import Grant

_ZAP = "inproc://zeromq.zap.01"
_DOMAIN = b"spade"
_ALLOWED, _UNLISTED = b"200", b"400"
_FAILED = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH

log = logging.getLogger(__name__)


class Failure(NamedTuple):
    """A handshake that failed."""

    reason: str
    """The reason for the failure."""

    final: bool
    """True if another try would fail as well."""


def has_keys(address: str, bus: Bus) -> bool:
    """Return True if an address uses CURVE.

    Raises ConfigError if it needs keys but bus.keys is not set, BusError if it is not an address.
    """
    if address.startswith("ipc://"):
        return False
    if not address.startswith("tcp://"):
        raise BusError(f"{address}: is not an address; write ipc://PATH or tcp://HOST:PORT")
    if not (bus.keys or is_local(address)):
        raise ConfigError(
            f"{address} can be reached by other machines and needs keys: `spade keys new DIR`, then --set bus.keys=DIR "
            "(--keys DIR to watch, scale or stop a live run)"
        )
    return bool(bus.keys)


def secure_server(socket: zmq.Socket[bytes], folder: Path) -> None:
    """Accept only clients that the context's gatekeeper allows. Call it before bind. Raises ConfigError."""
    pair = keys.read_server_pair(folder)
    socket.curve_server = True
    socket.curve_publickey, socket.curve_secretkey = pair
    socket.zap_domain = _DOMAIN
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)  # without a gatekeeper, no client is accepted


def secure_client(socket: zmq.Socket[bytes], folder: Path) -> None:
    """Use our key, and accept only the holder of the services' key. Call it before connect.

    Raises ConfigError.
    """
    pair = keys.read_client_pair(folder)
    socket.curve_publickey, socket.curve_secretkey = pair
    socket.curve_serverkey = keys.read_server_public(folder)


@asynccontextmanager
async def open_gate(folder: Path) -> AsyncIterator[Context]:
    """Yield a context for servers that accept only clients on the allow-list of `folder`.

    libzmq has one ZAP handler for each context. Close the sockets that you make in the block before it ends.
    """
    context: Context = zmq.Context()
    keeper = _Gatekeeper(context, folder)
    try:
        async with run_in_background(keeper.run):
            yield context
    finally:
        keeper.close()
        with trio.CancelScope(shield=True):  # this takes at most the linger time of the closed sockets
            await trio.to_thread.run_sync(context.term)


class _Gatekeeper:
    """A task that tells libzmq whether a client's key is on the allow-list, and which roles the key grants."""

    def __init__(self, context: Context, folder: Path) -> None:
        self._folder = folder
        self._refused = 0
        self._socket: zmq.Socket[bytes] = context.socket(zmq.REP)
        self._socket.linger = 0
        self._socket.bind(_ZAP)

    async def run(self) -> None:
        """Answer the questions of libzmq, for as long as the server's socket is open."""
        await _handle_arrivals(self._socket, self._answer)

    def close(self) -> None:
        """Close our socket. Call it after the server's socket is closed."""
        self._socket.close()

    def _answer(self, frames: list[bytes]) -> None:
        version, request, _, peer, _, mechanism, *credentials = frames
        grant = self._grant(mechanism, credentials)
        if grant is None:
            self._note_refusal(peer.decode(errors="replace"))
        status = (_UNLISTED, b"not on the allow-list") if grant is None else (_ALLOWED, b"")
        user = b"" if grant is None else str(grant).encode()  # libzmq attaches it to each message as "User-Id"
        self._socket.send_multipart([version, request, *status, user, b""])

    def _note_refusal(self, peer: str) -> None:
        self._refused += 1
        if self._refused & (self._refused - 1) == 0:  # the 1st, 2nd, 4th …: a flood must not fill the log
            log.warning("refused %d keys that are not on the allow-list so far; the last from %s", self._refused, peer)

    def _grant(self, mechanism: bytes, credentials: list[bytes]) -> Grant | None:
        if mechanism != b"CURVE" or len(credentials) != 1:
            return None
        try:
            return keys.read_allowed(self._folder).get(z85.encode(credentials[0]))
        except (SpadeError, OSError) as error:  # OSError: out of descriptors
            log.error("no client is accepted: %s", error)
            return None


class Watch:
    """A task that reports each failed handshake of a socket. Make it before the socket binds or connects."""

    def __init__(self, socket: zmq.Socket[bytes], on_failure: Callable[[Failure], None]) -> None:
        self._watched = socket
        self._on_failure = on_failure
        self._monitor: zmq.Socket[bytes] = socket.get_monitor_socket(_FAILED)

    async def run(self) -> None:
        """Report failed handshakes, for as long as the socket is open."""
        await _handle_arrivals(self._monitor, self._handle_event)

    def close(self) -> None:
        """End the watch. Call it before the socket closes."""
        self._watched.disable_monitor()
        self._monitor.close()

    def _handle_event(self, frames: list[bytes]) -> None:
        from zmq.utils.monitor import parse_monitor_message  # imports asyncio, which no process needs otherwise

        event = parse_monitor_message(frames)
        self._on_failure(_read_failure(event["event"], event["value"]))


def _read_failure(event: int, value: int) -> Failure:
    """Return the failure that an event of libzmq reports."""
    match event:
        case zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            return Failure(
                "our key is not on the service's allow-list; `spade keys new DIR HOST` makes one that is",
                final=value == int(_UNLISTED),
            )
        case zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL if value == zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH:
            return Failure("only one end has keys; --set bus.keys=DIR names the keys of the run", final=True)
        case zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL if value == errno.EAGAIN:  # timed out (EPIPE: closed)
            return Failure("it takes connections and says nothing; its process is stopped or overloaded", final=False)
        case _:
            # The usual cause is a wrong server.key. A peer without keys may also close before it has sent the reason.
            return Failure(
                "the handshake fails; do both ends have keys, and does server.key in bus.keys belong to this run?",
                final=False,
            )


async def _handle_arrivals(socket: zmq.Socket[bytes], handle: Callable[[list[bytes]], None]) -> None:
    """Handle the messages of a socket. No other task uses the socket, so EVENTS is current when it is read."""
    while True:
        if int(socket.get(zmq.EVENTS)) & zmq.POLLIN:
            handle(socket.recv_multipart(zmq.NOBLOCK))
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.wait_readable(socket.fileno())
