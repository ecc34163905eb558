"""The calling end of the bus: one DEALER, a session that outlives the server, and calls with deadlines."""

import itertools
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import trio
import zmq

from spade.codec import decode_response, encode
from spade.config import Bus
from spade.errors import BusError, RefusedError
from spade.protocol import Goodbye, Heartbeat, Hello, Pulse, Ready, Refused, Rehello, Request, Response
from spade.transport.curve import Failure, Watch, has_keys, secure_client
from spade.transport.pump import NUMBER_BYTES, PUSH, Beat, Pump, background, put_newest
from spade.waits import Waits

_PUSHES = 64  # kept for an owner that does not look

log = logging.getLogger(__name__)


class _Call:
    """A request that is kept until its reply."""

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.answered = trio.Event()
        self.response: Response | None = None

    def answer(self, response: Response) -> None:
        if not self.answered.is_set():  # a request sent again may be answered twice: the first reply counts
            self.response = response
            self.answered.set()


class Client:
    """One DEALER socket and its session with one server.

    hello    what we said of ourselves
    pushes   what the server sent unasked (bounded, newest kept)
    pulse    the newest Pulse, from Ready or a heartbeat's reply
    gauges   sent with each heartbeat; the owner updates it
    waits    likewise: what the owner waits for, here and elsewhere
    dropped  messages that made no sense
    """

    def __init__(self, address: str, hello: Hello, bus: Bus) -> None:
        self.address = address
        self.hello = hello
        self.pulse = Pulse()
        self.gauges: dict[str, float] = {}
        self.waits = Waits(trio.current_time)
        self.dropped = 0
        self._pushed, self.pushes = trio.open_memory_channel[Response](_PUSHES)
        self._bus = bus
        self._credit = trio.Semaphore(bus.window)
        self._numbers = itertools.count(1)
        self._calls: dict[int, _Call] = {}
        self._greeting: set[int] = set()  # numbers of the hellos of this handshake
        self._live = False
        self._refused: str | None = None
        self._settled = trio.Event()  # the first hello was answered
        self._turn = trio.Event()  # the session turned live, lost or refused
        self._pulsed = trio.Event()
        self._heard = trio.current_time()
        self._trouble = ""  # of the newest handshake of ZeroMQ that failed
        self._pump = Pump(zmq.DEALER, bus, self._on_frames)
        self._watch = Watch(self._pump.socket, self._on_failure)

    @property
    def live(self) -> bool:
        """True while the server knows us and is not silent."""
        return self._live

    async def call(self, request: Request, deadline_s: float | None = None) -> Response:
        """Send a request and wait for its reply, through restarts of the server (which may so see it more than once).

        `deadline_s` (default bus.call_deadline_s) bounds all of it, the wait for a place in the window included.
        Raises RefusedError on Refused, BusError on the deadline.
        """
        name = type(request).__name__
        payload = encode(request)
        most = self._bus.max_message_bytes
        if len(payload) > most:
            raise BusError(f"{self.address}: {name} of {len(payload)} bytes is over bus.max_message_bytes = {most}")
        limit = self._bus.call_deadline_s if deadline_s is None else deadline_s
        with trio.move_on_after(limit):
            async with self._credit:
                response = await self._exchange(payload)
            if isinstance(response, Refused):
                raise RefusedError(f"{self.address}: {name} refused: {response.reason}")
            return response
        state = "the service is slow" if self._live else "the service cannot be reached"
        raise BusError(f"{self.address}: no answer to {name} within {limit:g} s; {state}")

    async def wait_pulse(self) -> Pulse:
        """The next pulse. Raises RefusedError where a restarted server refuses us."""
        while self._refused is None:
            before = self.pulse
            await self._pulsed.wait()
            if self.pulse is not before:
                return self.pulse
        raise RefusedError(f"{self.address}: {self._refused}")

    async def _exchange(self, payload: bytes) -> Response:
        if self._refused is not None:
            return Refused(self._refused)
        number = next(self._numbers)
        call = self._calls[number] = _Call(payload)
        try:
            if self._live:
                self._send(number, payload)
            await call.answered.wait()
        finally:
            del self._calls[number]
        assert call.response is not None
        return call.response

    def _send(self, number: int, payload: bytes) -> bool:
        sent = self._pump.send([number.to_bytes(NUMBER_BYTES, "big"), payload])
        if not sent and self._live:
            self._lose("no connection")
        return sent

    # ------------------------------------------------------------ the session

    async def _session(self) -> None:
        """Greet, beat until the server is lost, greet again."""
        while self._refused is None:
            await self._greet()
            await self._beat()

    async def _greet(self) -> None:
        hello = encode(self.hello)
        while not self._live and self._refused is None:
            number = next(self._numbers)
            if not self._send(number, hello):
                await self._pump.writable()
                continue
            self._greeting.add(number)
            with trio.move_on_after(self._bus.heartbeat_s):
                await self._turn.wait()

    async def _beat(self) -> None:
        beat = Beat(self._bus.heartbeat_s)
        while self._live:
            if not self._send(next(self._numbers), encode(Heartbeat(dict(self.gauges), self.waits.report()))):
                return
            late = await beat.wait(interrupt=self._turn)
            self._heard += late  # not `+= await`, which would read it before the wait
            silent = trio.current_time() - self._heard
            if self._live and self._pump.drained and silent > self._bus.silence_s:
                self._lose(f"silent for {silent:.1f} s")

    def _lose(self, why: str) -> None:
        log.warning("%s: lost (%s); saying hello again", self.address, why)
        self._live = False
        self._greeting.clear()
        self._wake()

    def _wake(self) -> None:
        turn, self._turn = self._turn, trio.Event()
        turn.set()

    # ------------------------------------------------------------ arrivals

    def _on_frames(self, frames: list[bytes]) -> None:
        self._heard = trio.current_time()
        match frames:
            case [number, payload] if len(number) == NUMBER_BYTES:
                pass
            case _:
                self._nonsense(f"{len(frames)} frames")
                return
        try:
            response = decode_response(payload)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            self._nonsense(str(error))
            response = Refused(f"the reply makes no sense ({error}); do both sides run the same version of spade?")
        if number == PUSH:
            put_newest(self._pushed, self.pushes, response)
        else:
            self._on_response(int.from_bytes(number, "big"), response)

    def _on_response(self, number: int, response: Response) -> None:
        match response:
            case Ready():
                self._on_ready(response)
            case Rehello():
                # Those of one server come in order: after a Ready, a Rehello means that it has given us up since.
                if self._live:
                    self._lose("it does not know us")
            case Refused() if number in self._greeting:
                self._on_refused(response.reason)
            case Pulse():
                self._on_pulse(response)
            case _:
                call = self._calls.get(number)
                if call is not None:  # else: a second reply, or one to a call that was given up
                    call.answer(response)

    def _on_ready(self, ready: Ready) -> None:
        self._settled.set()
        self._on_pulse(Pulse(ready.peers, ready.weights))
        if self._live:
            return  # the reply to an earlier hello of the same handshake
        self._live = True
        self._greeting.clear()
        self._wake()
        for number, call in list(self._calls.items()):
            if not (call.answered.is_set() or self._send(number, call.payload)):
                return

    def _on_refused(self, reason: str) -> None:
        log.error("%s: %s", self.address, reason)
        self._refused = reason
        self._settled.set()
        self._wake()
        self._pulsed.set()
        for call in self._calls.values():
            call.answer(Refused(reason))

    def _on_failure(self, failure: Failure) -> None:
        self._trouble = failure.reason
        if failure.final and self._refused is None:
            self._on_refused(failure.reason)

    def _on_pulse(self, pulse: Pulse) -> None:
        self.pulse = pulse
        pulsed, self._pulsed = self._pulsed, trio.Event()
        pulsed.set()

    def _nonsense(self, what: str) -> None:
        self.dropped += 1
        log.warning("%s: dropped a message that makes no sense: %s", self.address, what)


@asynccontextmanager
async def connect(address: str, hello: Hello, *, bus: Bus) -> AsyncIterator[Client]:
    """A session with the server at `address`; goes in once it is Ready and says goodbye on the way out.

    Raises RefusedError where the server refuses us, BusError where it does not answer within bus.call_deadline_s,
    ConfigError where the address is another machine's and bus.keys is not set.
    """
    guarded = has_keys(address, bus)
    client = Client(address, hello, bus)
    try:
        if guarded:
            secure_client(client._pump.socket, Path(bus.keys))
        client._pump.connect(address)
        async with background(client._pump.run, client._session, client._watch.run):
            with trio.move_on_after(bus.call_deadline_s):
                await client._settled.wait()
            if client._refused is not None:
                raise RefusedError(f"{address}: {client._refused}")
            if not client._settled.is_set():
                why = client._trouble or "is the service running?"
                raise BusError(f"{address}: no answer within {bus.call_deadline_s:g} s; {why}")
            try:
                yield client
            finally:
                client._send(next(client._numbers), encode(Goodbye()))
    finally:
        client._watch.close()
        client._pump.close()
        client._pushed.close()
