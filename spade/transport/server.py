"""The serving end of the bus: one ROUTER socket, its peers from greeting to goodbye, and the messages to them."""

import logging
import resource
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from secrets import token_hex

import msgspec
import trio
import zmq

from spade.codec import decode_request, encode
from spade.config import Bus
from spade.decoding import UnreadableError
from spade.protocol import (
    PROTOCOL_VERSION,
    AnyRequest,
    Done,
    Goodbye,
    Heartbeat,
    Hello,
    Pulse,
    Ready,
    Refused,
    Rehello,
    Response,
)
from spade.transport.curve import Failure, Watch, has_keys, open_gate, secure_server
from spade.transport.inbox import Inbox, IncomingRequest
from spade.transport.pump import NUMBER_BYTES, PUSH, WINDOW, Beat, Context, Pump, put_newest, run_in_background
from spade.transport.rights import LOCAL, Grant, explain_forbidden, explain_ungranted

_PEERS = 8_192
_EACH = 1_024  # most peers with the same key. The key of the run's own host has no such limit
_BEAT_BYTES = 32_768  # largest heartbeat. Heartbeats are kept, shown and written into the metrics
_GONE = 1_024  # most departures that are kept if the service does not read them
_PARTING_S = 0.25  # time for the goodbyes of all peers together
_WAITING = 2  # requests of a peer that may wait, in windows: one for its open calls, one for calls that it gave up

log = logging.getLogger(__name__)


class Server:
    """One ROUTER socket. It answers Hello, Heartbeat and Goodbye itself, and `receive` returns all other requests.

    address     as bound, wildcards resolved
    peers       the connected peers, by routing id
    changes     number of changes of `peers`
    heartbeats  the newest heartbeat of each peer
    dropped     number of messages that were malformed, or whose sender had no right to send them
    strangers   number of connections that failed in ZeroMQ's handshake: no key, an unlisted key, another protocol
    gone        peers that said goodbye, fell silent or did not read (bounded, newest kept). A peer that lost its
                connection and returned has a new routing id. Its old id appears here
    """

    def __init__(
        self,
        digest: str,
        bus: Bus,
        ready: Callable[[Hello], Ready | Refused] | None,
        pulse: Callable[[], Pulse],
        context: Context | None,
    ) -> None:
        self.address = ""
        self.peers: dict[bytes, Hello] = {}
        self.changes = 0
        self.heartbeats: dict[bytes, Heartbeat] = {}
        self.dropped = 0
        self.strangers = 0
        self._departed, self.gone = trio.open_memory_channel[tuple[bytes, Hello]](_GONE)
        self._digest = digest
        self._life = token_hex(8)
        self._left = False  # True while we stop as planned. Only goodbyes are then read, so that no peer joins.
        self._bus = bus
        self._ready = ready or (lambda _: Ready())
        self._pulse = pulse
        self._heard: dict[bytes, float] = {}
        self._users: dict[bytes, str] = {}  # the grant (`Pump.user`) of each peer's hello
        self._inbox = Inbox(_WAITING * WINDOW)
        self._apart: dict[type[AnyRequest], Inbox] = {}
        self._drained_at = trio.current_time()
        self._pump = Pump(zmq.ROUTER, bus, self._on_frames, context)
        self._watch = Watch(self._pump.socket, self._on_failure)

    @asynccontextmanager
    async def listening(self, address: str, folder: Path | None) -> AsyncIterator[None]:
        """Run the server. This works only once. `folder` has the keys, or is None without keys. See `serve`."""
        try:
            if folder:
                secure_server(self._pump.socket, folder)
            self.address = self._pump.bind(address)
            try:
                async with run_in_background(self._pump.run, self._reap, self._watch.run):
                    yield
            except BaseException as error:
                if _is_cancelled(error):
                    await self._part()
                raise  # after a crash, peers must not be told that we stop as planned
            await self._part()
        finally:
            self._watch.close()
            self._pump.close()
            self._departed.close()

    async def _part(self) -> None:
        """Tell the peers that we stop as planned, and wait for their goodbyes.

        If the socket closed immediately, messages could be lost.
        """
        self._left = True
        with trio.move_on_after(_PARTING_S, shield=True):
            async with run_in_background(self._pump.run):
                for peer in list(self.peers):
                    self._pump.send([peer, PUSH, encode(Rehello(leaving=True))])
                while self.peers:
                    await self.gone.receive()

    async def receive(self) -> IncomingRequest:
        """Wait for the next request, in the order of arrival."""
        return await self._inbox.take()

    def apart(self, kind: type[AnyRequest]) -> Inbox:
        """Return a separate inbox for the requests of one kind. `receive` then never returns these."""
        return self._apart.setdefault(kind, Inbox(self._inbox.most))

    def receive_nowait(self) -> IncomingRequest | None:
        """Return the next request, or None if no request waits."""
        return self._inbox.take_nowait()

    async def reply(self, incoming: IncomingRequest, response: Response | bytes) -> bool:
        """Answer a request with a response or its encoding. Returns False if the peer is gone.

        If the peer comes back, it sends the request again.
        """
        await trio.lowlevel.checkpoint()
        return self.reply_nowait(incoming, response)

    def reply_nowait(self, incoming: IncomingRequest, response: Response | bytes) -> bool:
        """Answer a request as `reply` does, without waiting."""
        return self._deliver(incoming.peer, incoming.id.to_bytes(NUMBER_BYTES, "big"), response)

    async def push(self, peer: bytes, response: Response) -> bool:
        """Send a message that is not a reply. Returns False if the peer is gone."""
        await trio.lowlevel.checkpoint()
        return self._deliver(peer, PUSH, response)

    def _deliver(self, peer: bytes, number: bytes, response: Response | bytes) -> bool:
        if peer not in self.peers:
            return False
        payload = response if isinstance(response, bytes) else encode(response)
        if len(payload) > self._bus.max_message_bytes:
            name = "reply" if isinstance(response, bytes) else type(response).__name__
            limit = self._bus.max_message_bytes
            log.error("a %s of %d bytes is over bus.max_message_bytes = %d", name, len(payload), limit)
            payload = encode(Refused(f"the {name} has {len(payload)} bytes, over bus.max_message_bytes = {limit}"))
        if not self._pump.send([peer, number, payload]):
            # The peer is disconnected, or so far behind that its queue is full. It gets a Rehello when it speaks again.
            self.give_up(peer, "does not read")
            return False
        return True

    def _on_frames(self, frames: list[bytes]) -> None:
        match frames:
            case [peer, number, payload] if len(number) == NUMBER_BYTES and number != PUSH:
                self._on_payload(peer, number, payload)
            case _:
                self._drop(frames[0], f"{len(frames)} frames of {[len(frame) for frame in frames[1:9]]} bytes")

    def _on_payload(self, peer: bytes, number: bytes, payload: bytes) -> None:
        if self._users.get(peer, self._pump.user) != self._pump.user:
            self.give_up(peer, "its routing id is used under another key")
        try:
            message = decode_request(payload)
        except UnreadableError as error:
            self._drop(peer, str(error))
            reason = f"cannot read this message ({error}); do both sides run the same version of spade?"
            self._pump.send([peer, number, encode(Refused(reason))])
            return
        if peer in self.peers:
            self._heard[peer] = trio.current_time()
        if self._left and not isinstance(message, Goodbye):
            return
        match message:
            case Hello():
                self._on_hello(peer, number, message)
            case Goodbye():
                self._pump.send([peer, number, encode(Done())])
                self.give_up(peer, "goodbye")
            case _ if peer not in self.peers:
                self._pump.send([peer, number, encode(Rehello())])
            case Heartbeat() if len(payload) > _BEAT_BYTES:
                self._drop(peer, f"a heartbeat of {len(payload)} bytes")
                self._deliver(peer, number, Refused(f"a heartbeat has at most {_BEAT_BYTES} bytes"))
            case Heartbeat():
                self.heartbeats[peer] = message
                self._deliver(peer, number, self._pulse())
            case _ if why := explain_forbidden(self.peers[peer], message):
                self._drop(peer, why)
                self._deliver(peer, number, Refused(why))
            case _:
                self._on_request(IncomingRequest(peer, self.peers[peer], int.from_bytes(number, "big"), message))

    def _on_hello(self, peer: bytes, number: bytes, hello: Hello) -> None:
        answer: Ready | Refused
        if hello.protocol != PROTOCOL_VERSION:
            answer = Refused(
                f"{hello.name} speaks protocol {hello.protocol}, this service {PROTOCOL_VERSION}; "
                "run the same version of spade"
            )
        elif hello.digest != self._digest and not (hello.role == "observer" and hello.digest == ""):
            answer = Refused(
                f"{hello.name} has another configuration (digest {hello.digest[:8]}, this run {self._digest[:8]}); "
                "start it with the run's config.toml"
            )
        elif self._pump.user and (why := explain_ungranted(hello, Grant.parse(self._pump.user))):
            answer = Refused(why)
        elif peer not in self.peers and (crowd := self._describe_crowd()):
            answer = Refused(f"{crowd} are connected already; start no more of them")
        else:
            answer = self._ready(hello)
        if isinstance(answer, Ready):
            log.info("%s is here (pid %d)", hello.name, hello.pid)
            self.peers[peer], self._users[peer] = hello, self._pump.user
            self.changes += 1
            self._heard[peer] = trio.current_time()
            self._forget(peer)  # the peer sends its open requests again
            answer = msgspec.structs.replace(answer, life=self._life)
        else:
            log.warning("refused: %s", answer.reason)
        self._pump.send([peer, number, encode(answer)])

    def _describe_crowd(self) -> str:
        """Describe the limit that one more peer would exceed, or return ""."""
        if len(self.peers) >= _PEERS:
            return f"{_PEERS} peers"
        user = self._pump.user
        if not user or Grant.parse(user).name == LOCAL or list(self._users.values()).count(user) < _EACH:
            return ""
        return f"{_EACH} peers with the key of {Grant.parse(user).name}"

    def _on_request(self, incoming: IncomingRequest) -> None:
        if not self._apart.get(type(incoming.message), self._inbox).put(incoming):
            self._drop(incoming.peer, f"more than {_WAITING} windows of requests")
            reason = f"{self._inbox.most} of your requests wait already"
            self.reply_nowait(incoming, Refused(reason))

    def _drop(self, peer: bytes, what: str) -> None:
        self.dropped += 1
        if self.dropped & (self.dropped - 1) == 0:  # the 1st, 2nd, 4th, 8th …: a flood must not fill the log
            name = self.peers[peer].name if peer in self.peers else f"unknown peer {peer.hex()}"
            log.warning("dropped %d messages so far; the last from %s: %s", self.dropped, name, what)

    def _on_failure(self, _: Failure) -> None:
        self.strangers += 1
        if self.strangers & (self.strangers - 1) == 0:
            log.warning("%d connections failed in the handshake so far", self.strangers)

    def give_up(self, peer: bytes, why: str) -> None:
        """Forget a peer and its waiting requests. The peer has to greet again."""
        hello = self.peers.pop(peer, None)
        if hello is None:
            return
        self.changes += 1
        log.info("%s is gone: %s", hello.name, why)
        del self._heard[peer], self._users[peer]
        self.heartbeats.pop(peer, None)
        self._forget(peer)
        put_newest(self._departed, self.gone, (peer, hello))

    def _forget(self, peer: bytes) -> None:
        for inbox in (self._inbox, *self._apart.values()):
            inbox.forget(peer)

    async def _reap(self) -> None:
        """Give up silent peers.

        Arrived messages are handled first. Time during which this process did not run does not count as silence.
        """
        beat, never = Beat(self._bus.heartbeat_s), trio.lowlevel.ParkingLot()
        while True:
            late = await beat.wait(never)
            self._heard = {peer: at + late for peer, at in self._heard.items()}
            if self._pump.drained:
                self._drained_at = trio.current_time()
            for peer, heard in list(self._heard.items()):
                if self._drained_at - heard > self._bus.silence_s:
                    self.give_up(peer, f"silent for {self._drained_at - heard:.1f} s")


def _is_cancelled(error: BaseException) -> bool:
    """Return True if the error consists only of cancellations."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_cancelled, error.exceptions))
    return isinstance(error, trio.Cancelled)


@asynccontextmanager
async def serve(
    address: str,
    *,
    digest: str,
    bus: Bus,
    ready: Callable[[Hello], Ready | Refused] | None = None,
    pulse: Callable[[], Pulse] = Pulse,
) -> AsyncIterator[Server]:
    """Listen on `address` ("ipc://PATH", "tcp://127.0.0.1:PORT"). Port * or 0 takes any free port.

    `ready` decides whether to accept a peer with the right protocol and digest. `pulse` makes the replies to
    heartbeats. An address that other machines reach needs bus.keys, and accepts only clients on the allow-list. Raises
    ConfigError if such keys are missing, BusError if the server cannot listen on the address.
    """
    _raise_descriptor_limit()
    folder = Path(bus.keys) if has_keys(address, bus) else None
    async with open_gate(folder) if folder else nullcontext() as context:
        server = Server(digest, bus, ready, pulse, context)
        async with server.listening(address, folder):
            yield server


def _raise_descriptor_limit() -> None:
    """Raise the limit of descriptors to the system's limit.

    Each connection takes a descriptor, and libzmq does not bound the number of connections.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
