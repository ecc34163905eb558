"""One ZeroMQ socket inside trio, its settings, and the code that both ends of the bus share.

pyzmq does not support trio. The socket's descriptor is edge-triggered: it turns readable when the socket's *state may
have changed*, and any operation on the socket may swallow that edge. So only one pump task waits for the descriptor.
Every operation looks at EVENTS afterwards, and wakes the tasks that the events concern.
"""

import ctypes
import errno
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import trio
import zmq

from spade.config import Bus
from spade.errors import BusError, unwrap_errors

NUMBER_BYTES = 8
PUSH = bytes(NUMBER_BYTES)
_IPC = "ipc://"
_BATCH = 256  # messages handled before other tasks get their turn
_LINGER_MS = 500  # time for a closed socket to hand its last messages (a goodbye) to the system
WINDOW = 256  # calls of one client that may wait for their answers; the next call waits for a place
_BACKLOG = 4  # queue length, in windows: each call may have a request, its repetition, a pulse and a push in the queue
_RECONNECT_MS = 50
_RECONNECT_MAX_MS = 1_000
_OVERHEAD = 256  # bytes that ZeroMQ may add to a frame: CURVE takes 33

# Plain numbers: an operation on an enum takes longer than reading the socket's state.
_READABLE, _WRITABLE, _NOBLOCK = int(zmq.POLLIN), int(zmq.POLLOUT), int(zmq.NOBLOCK)

Context = zmq.Context[zmq.Socket[bytes]]
T = TypeVar("T")


class Pump:
    """A socket that never blocks.

    `send` succeeds immediately or returns False. The pump passes arrivals to `on_frames`. `user` is the grant of the
    key under which the current message was sent, or "" without keys.
    """

    def __init__(
        self,
        kind: int,
        bus: Bus,
        on_frames: Callable[[list[bytes]], None],
        context: Context | None = None,
    ) -> None:
        if kind == zmq.ROUTER:
            _seed_numbering()
        self.socket: zmq.Socket[bytes] = (context or zmq.Context.instance()).socket(kind)
        self.user = ""
        self._gated = False
        self._on_frames = on_frames
        self._most = bus.max_message_bytes
        self._beat_ms, self._silence_ms = round(1_000 * bus.heartbeat_s), round(1_000 * bus.silence_s)
        self._nap = trio.CancelScope()
        self._writable = trio.Event()
        self._file: tuple[Path, int] | None = None  # a server's socket file, and its inode
        self.socket.setsockopt(zmq.LINGER, _LINGER_MS)
        self.socket.setsockopt(zmq.MAXMSGSIZE, bus.max_message_bytes + _OVERHEAD)
        self.socket.set_hwm(_BACKLOG * WINDOW)
        if kind == zmq.ROUTER:
            # Without this option a ROUTER silently drops messages that it cannot route or queue.
            self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        else:
            # Queue only for a live connection. The session, not ZeroMQ, sends messages of a dead connection again.
            self.socket.setsockopt(zmq.IMMEDIATE, 1)
            self.socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
            self.socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MAX_MS)

    def bind(self, address: str) -> str:
        """Listen, and return the address with wildcards resolved. Raises BusError."""
        self._expect_losses(address)
        self._gated = bool(self.socket.get(zmq.CURVE_SERVER))
        if address.startswith("tcp://") and address.endswith(":0"):
            address = address[:-1] + "*"
        try:
            self.socket.bind(address)
        except zmq.ZMQError as error:
            raise BusError(f"{address}: cannot listen there: {zmq.strerror(error.errno or 0)}") from None
        bound = self.socket.get_string(zmq.LAST_ENDPOINT).rstrip("\0")
        if bound.startswith(_IPC):
            file = Path(bound.removeprefix(_IPC))
            self._file = file, _read_inode(file)
        return bound

    def connect(self, address: str) -> None:
        """Connect now, or as soon as a service listens there. Raises BusError if this is not an address."""
        self._expect_losses(address)
        try:
            self.socket.connect(address)
        except zmq.ZMQError as error:
            raise BusError(f"{address}: cannot connect: {zmq.strerror(error.errno or 0)}") from None

    def _expect_losses(self, address: str) -> None:
        """Let ZeroMQ replace a silent TCP connection. TCP would retry the old one at longer and longer intervals."""
        if address.startswith("tcp://"):
            self.socket.setsockopt(zmq.HEARTBEAT_IVL, self._beat_ms)
            self.socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, self._silence_ms)
            self.socket.setsockopt(zmq.CONNECT_TIMEOUT, self._silence_ms)
            # Limits how long an unknown client may occupy a descriptor.
            self.socket.setsockopt(zmq.HANDSHAKE_IVL, self._silence_ms)

    async def run(self) -> None:
        """Run the pump task, for as long as the socket is open."""
        descriptor = self.socket.fileno()
        while True:
            if self._drain():
                await trio.lowlevel.checkpoint()
            else:
                self._nap = trio.CancelScope()
                with self._nap:
                    await trio.lowlevel.wait_readable(descriptor)

    def send(self, frames: list[bytes]) -> bool:
        """Send frames. Returns False if the peer is not connected, or if its queue is full."""
        try:
            self.socket.send_multipart(frames, _NOBLOCK)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if error.errno == errno.EHOSTUNREACH:
                return False
            raise
        finally:
            self._look()
        return True

    @property
    def drained(self) -> bool:
        """Return True if all arrived messages have been handled."""
        return not self._look() & _READABLE

    async def writable(self) -> None:
        """Wait until `send` may succeed. Only one task at a time may wait."""
        self._writable = trio.Event()
        self._look()
        await self._writable.wait()

    def close(self) -> None:
        """Close the socket after the end of the pump task, and delete its file."""
        # Another server may have replaced the file by its own. Our inode cannot be reused before we close the socket.
        if self._file is not None and _read_inode(self._file[0]) == self._file[1]:
            self._file[0].unlink(missing_ok=True)
        self.socket.close()

    def _look(self) -> int:
        events = int(self.socket.get(zmq.EVENTS))
        if events & _READABLE:
            self._nap.cancel()
        if events & _WRITABLE:
            self._writable.set()
        return events

    def _drain(self) -> bool:
        """Handle a batch of messages. Returns True if there may be more."""
        for _ in range(_BATCH):
            if not self._look() & _READABLE:
                return False
            frames = self._receive()
            if sum(map(len, frames)) > self._most + _OVERHEAD:
                frames = frames[:1]  # too long for the bus. `on_frames` counts a message of one frame as unreadable
            self._on_frames(frames)
        return True

    def _receive(self) -> list[bytes]:
        if not self._gated:
            return self.socket.recv_multipart(_NOBLOCK)
        frames = self.socket.recv_multipart(_NOBLOCK, copy=False)
        self.user = str(frames[-1].get("User-Id"))
        return [frame.bytes for frame in frames]


def _seed_numbering() -> None:
    """Make the ids that a ROUTER gives its peers unpredictable.

    A ROUTER counts ids up from libc's unseeded `rand`, and lets a peer choose its own id. If the next id to give is
    taken, libzmq 4.3.5 ends the process.
    """
    ctypes.CDLL(None).srand(ctypes.c_uint(secrets.randbits(32)))


def _read_inode(path: Path) -> int:
    """Return the inode of a file, or 0 if the file does not exist."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0


class Beat:
    """A periodic timer that measures how late it wakes.

    The caller subtracts the lateness from the silence of peers, because this process did not run during that time.
    """

    def __init__(self, period_s: float) -> None:
        self._period = period_s
        self._due = trio.current_time() + period_s

    async def wait(self, interrupt: trio.lowlevel.ParkingLot) -> float:
        """Wait for the end of the period or for the interrupt. Returns the lateness in seconds."""
        with trio.move_on_at(self._due):
            await interrupt.park()
        now = trio.current_time()
        late = max(0.0, now - self._due)
        self._due = now + self._period
        return late


def put_newest(sender: trio.MemorySendChannel[T], receiver: trio.MemoryReceiveChannel[T], item: T) -> None:
    """Put an item into a bounded channel. Drops the oldest item if the channel is full."""
    try:
        sender.send_nowait(item)
    except trio.WouldBlock:
        receiver.receive_nowait()
        sender.send_nowait(item)


@asynccontextmanager
async def run_in_background(*tasks: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run endless tasks for the length of the block. Exceptions of the block are not wrapped in a group.

    A cancellation reaches the block first. The tasks run until the block has ended, so it can still use a connection.
    """
    scopes = [trio.CancelScope(shield=True) for _ in tasks]
    async with unwrap_errors(trio.open_nursery()) as nursery:
        for task, scope in zip(tasks, scopes, strict=True):
            nursery.start_soon(_run_within, scope, task)
        try:
            yield
        finally:
            for scope in scopes:
                scope.cancel()


async def _run_within(scope: trio.CancelScope, task: Callable[[], Awaitable[None]]) -> None:
    with scope:
        await task()
