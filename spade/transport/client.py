"""The calling end of the bus: one DEALER socket and its session.

A session begins with a handshake and lasts while the server answers heartbeats. If it is lost, the client says hello
again.
"""

import itertools
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio
import zmq

from spade.codec import decode_response, encode
from spade.config import Bus
from spade.decoding import UnreadableError
from spade.errors import BusError, RefusedError, SuspectError
from spade.protocol import (
    Goodbye,
    Heartbeat,
    Hello,
    Pulse,
    Ready,
    Refused,
    Rehello,
    Reply,
    Request,
    Response,
    reply_type,
)
from spade.transport.calls import Calls
from spade.transport.curve import Failure, Watch, has_keys, secure_client
from spade.transport.pump import NUMBER_BYTES, PUSH, WINDOW, Beat, Pump, put_newest, run_in_background
from spade.waits import Waits

_PUSHES = 64  # most pushes that are kept if the owner does not read them
_WAITS = 128  # most waits that a heartbeat names

log = logging.getLogger(__name__)


class Client:
    """One DEALER socket and its session with one server.

    hello    our own greeting
    pushes   messages that the server pushed (bounded, newest kept)
    pulse    the newest Pulse, from Ready or from a heartbeat's reply
    gauges   figures sent with each heartbeat, updated by the owner
    waits    everything that the owner waits for, also sent with each heartbeat
    life     the name of the server's life, from its last Ready, or "" after the server stopped as planned
    dropped  number of malformed messages
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
        self._numbers = itertools.count(1)
        self._calls = Calls(WINDOW, self._numbers, self._send_live)
        self._greeting: set[int] = set()  # request numbers of the hellos in this handshake
        self._live = False
        self.life = ""
        self._refused: str | None = None
        self._settled = trio.Event()  # the first hello was answered
        self._turn = trio.lowlevel.ParkingLot()  # wakes when the session is live, lost or refused
        self._pulsed = trio.lowlevel.ParkingLot()
        self._heard = trio.current_time()
        self._trouble = ""  # the newest failure of ZeroMQ's handshake
        self._pump = Pump(zmq.DEALER, bus, self._on_frames)
        self._watch = Watch(self._pump.socket, self._on_failure)

    @property
    def live(self) -> bool:
        """Return True while the session lasts."""
        return self._live

    @property
    def left(self) -> bool:
        """Return True after the server stopped as planned, until the next session begins."""
        return not self._live and not self.life

    @property
    def refusal(self) -> str:
        """Return the reason why the server refuses us for good, or "" if it does not."""
        return self._refused or ""

    async def call(self, request: Request[Reply], deadline_s: float | None = None, *, once: bool = False) -> Reply:
        """Send a request and wait for its reply, across restarts of the server.

        The server may receive the request more than once. `deadline_s` (default bus.call_deadline_s) bounds the whole
        call, including the wait while WINDOW other calls are open. With `once`, a request that was sent is not sent
        again after the server has crashed and restarted.

        Raises RefusedError on Refused. Raises SuspectError if the refusal is `unforeseen`, or if the server crashed
        while it served a `once` call. Raises BusError at the deadline, for a request that is too long, and for a reply
        of a wrong type.
        """
        name = type(request).__name__
        payload = encode(request)
        most = self._bus.max_message_bytes
        if len(payload) > most:
            raise BusError(f"{self.address}: {name} of {len(payload)} bytes is over bus.max_message_bytes = {most}")
        limit = self._bus.call_deadline_s if deadline_s is None else deadline_s
        with trio.move_on_after(limit):
            response = await self._calls.reply(payload, once)
            if response is None:
                raise SuspectError(f"{self.address}: ended while it served {name}")
            if isinstance(response, Refused):
                kind = SuspectError if response.unforeseen else RefusedError
                raise kind(f"{self.address}: {name} refused: {response.reason}")
            if not isinstance(response, reply_type(type(request))):
                raise BusError(f"{self.address}: answered {name} with {type(response).__name__}")
            return response
        state = "the service is slow" if self._live else "the service cannot be reached"
        raise BusError(f"{self.address}: no answer to {name} within {limit:g} s; {state}")

    async def wait_pulse(self) -> Pulse:
        """Wait for the next pulse. Raises RefusedError if a restarted server refuses us."""
        while self._refused is None:
            before = self.pulse
            await self._pulsed.park()
            if self.pulse is not before:
                return self.pulse
        raise RefusedError(f"{self.address}: {self._refused}")

    # ------------------------------------------------------------ the session

    @asynccontextmanager
    async def session(self) -> AsyncIterator[None]:
        """Run the session. A client has only one. See `connect`."""
        try:
            if has_keys(self.address, self._bus):
                secure_client(self._pump.socket, Path(self._bus.keys))
            self._pump.connect(self.address)
            async with run_in_background(self._pump.run, self._stay, self._watch.run):
                await self._settle()
                try:
                    yield
                finally:
                    self._send(next(self._numbers), encode(Goodbye()))
        finally:
            self._watch.close()
            self._pump.close()
            self._pushed.close()

    async def _settle(self) -> None:
        """Wait until the server knows us. Raises RefusedError if it refuses us, BusError if it does not answer."""
        with trio.move_on_after(self._bus.call_deadline_s):
            await self._settled.wait()
        if self._refused is not None:
            raise RefusedError(f"{self.address}: {self._refused}")
        if not self._settled.is_set():
            why = self._trouble or "is the service running?"
            raise BusError(f"{self.address}: no answer within {self._bus.call_deadline_s:g} s; {why}")

    async def _stay(self) -> None:
        """Greet the server, send heartbeats until it is lost, then greet again."""
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
                await self._turn.park()

    async def _beat(self) -> None:
        beat = Beat(self._bus.heartbeat_s)
        while self._live:
            if not self._send(next(self._numbers), encode(Heartbeat(dict(self.gauges), self.waits.report()[:_WAITS]))):
                return
            late = await beat.wait(interrupt=self._turn)
            self._heard += late  # do not write `+= await`: it would read `_heard` before the wait
            silent = trio.current_time() - self._heard
            if self._live and self._pump.drained and silent > self._bus.silence_s:
                self._lose(f"silent for {silent:.1f} s")

    def _lose(self, why: str, *, in_order: bool = False) -> None:
        level = logging.INFO if in_order else logging.WARNING
        log.log(level, "%s: lost (%s); saying hello again", self.address, why)
        self._live = False
        self._greeting.clear()
        self._turn.unpark_all()

    def _send(self, number: int, payload: bytes) -> bool:
        sent = self._pump.send([number.to_bytes(NUMBER_BYTES, "big"), payload])
        if not sent and self._live:
            self._lose("no connection")
        return sent

    def _send_live(self, number: int, payload: bytes) -> bool:
        return self._live and self._send(number, payload)

    # ------------------------------------------------------------ arrivals

    def _on_frames(self, frames: list[bytes]) -> None:
        self._heard = trio.current_time()
        match frames:
            case [number, payload] if len(number) == NUMBER_BYTES:
                pass
            case _:
                self._drop_nonsense(f"{len(frames)} frames")
                return
        try:
            response = decode_response(payload)
        except UnreadableError as error:
            self._drop_nonsense(str(error))
            response = Refused(f"the reply makes no sense ({error}); do both sides run the same version of spade?")
        if number == PUSH and not isinstance(response, Rehello):
            put_newest(self._pushed, self.pushes, response)
        else:
            self._on_response(int.from_bytes(number, "big"), response)

    def _on_response(self, number: int, response: Response) -> None:
        match response:
            case Ready():
                self._on_ready(response)
            case Rehello(leaving=leaving):
                # Messages of a server arrive in order. After a Ready, a Rehello means that the server disconnected us.
                if leaving:
                    self.life = ""
                    self._send(next(self._numbers), encode(Goodbye()))  # the server waits for it
                if self._live:
                    self._lose("it leaves" if leaving else "it does not know us", in_order=leaving)
            case Refused() if number in self._greeting:
                self._on_refused(response.reason)
            case Pulse():
                self._on_pulse(response)
            case _:
                self._calls.answer(number, response)

    def _on_ready(self, ready: Ready) -> None:
        self._settled.set()
        self._on_pulse(Pulse(ready.peers, ready.weights, ready.finished))
        if self._live:
            return  # the reply to an earlier hello of the same handshake
        if self.life not in ("", ready.life):
            self._calls.ended()
        self.life = ready.life
        self._live = True
        self._greeting.clear()
        self._turn.unpark_all()
        self._calls.send_again()

    def _on_refused(self, reason: str) -> None:
        log.error("%s: %s", self.address, reason)
        self._refused = reason
        self._settled.set()
        self._turn.unpark_all()
        self._pulsed.unpark_all()
        self._calls.refuse(Refused(reason))

    def _on_failure(self, failure: Failure) -> None:
        self._trouble = failure.reason
        if failure.final and self._refused is None:
            self._on_refused(failure.reason)

    def _on_pulse(self, pulse: Pulse) -> None:
        self.pulse = pulse
        self._pulsed.unpark_all()

    def _drop_nonsense(self, what: str) -> None:
        self.dropped += 1
        log.warning("%s: dropped a message that makes no sense: %s", self.address, what)


@asynccontextmanager
async def connect(address: str, hello: Hello, *, bus: Bus) -> AsyncIterator[Client]:
    """Yield a client after the server at `address` is Ready. Says goodbye after the block.

    Raises RefusedError if the server refuses us, BusError if it does not answer within bus.call_deadline_s, and
    ConfigError if the address is another machine's and bus.keys is not set.
    """
    client = Client(address, hello, bus)
    async with client.session():
        yield client
