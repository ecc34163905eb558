"""The further processes of a backend on this machine: the learner starts them and commands them; they end with it.

Each holds one end of a socket pair. Messages carry their length in front: commands go down, their results come up. A
rank whose learner is gone ends at once, however busy, since the learner's checkpoint has all its state. The learner
notices a lost rank at its next message to it, or through `Ranks.watch`.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import NoReturn

import msgspec
import trio

from learner.step_metrics import Totals
from spade.config import Config
from spade.errors import SpadeError
from spade.protocol import Batch

_LENGTH_BYTES = 8
_GRACE_S = 5.0  # in which we notice the end of a process, after a failure that it caused
_STUCK_S = 30.0  # bound of a computation that waits for a lost process


class Place(msgspec.Struct, frozen=True, tag=True):
    """A rank's first message: its place. `meeting`: the file through which the backend's processes meet."""

    config: Config
    rank: int
    meeting: str


class Train(msgspec.Struct, frozen=True, tag=True):
    """Take the step; Go or Halt comes before every micro-batch of its first pass. Answered by Trained."""

    batch: Batch


class Go(msgspec.Struct, frozen=True, tag=True):
    """Compute the next micro-batch."""


class Halt(msgspec.Struct, frozen=True, tag=True):
    """Abandon the step."""


class Gather(msgspec.Struct, frozen=True, tag=True):
    """Bring your part of parameters, and of the optimiser's state if `optimizer`, to rank 0."""

    optimizer: bool


class Load(msgspec.Struct, frozen=True, tag=True):
    """Continue from the checkpoint in `folder`."""

    folder: str


class Here(msgspec.Struct, frozen=True, tag=True):
    """The rank is about to join the others."""


class Trained(msgspec.Struct, frozen=True, tag=True):
    """The rank's counts of its part of the step."""

    totals: Totals


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The rank ends, for this reason."""

    line: str


Command = Place | Train | Go | Halt | Gather | Load
Answer = Here | Trained | Failed


class _Rank:
    def __init__(self, module: str, number: int) -> None:
        self.name = f"learner rank {number}"
        self.pipe, theirs = socket.socketpair()
        with theirs:
            # In the learner's process group, so that a signal to the group ends the ranks too.
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        self.descriptor = os.pidfd_open(self.process.pid)

    def ended(self) -> bool:
        return bool(select.select([self.descriptor], [], [], 0)[0])

    def why(self) -> str:
        """The reason why it ended, in one line."""
        with suppress(OSError, EOFError, msgspec.DecodeError):
            self.pipe.settimeout(_GRACE_S)
            while True:
                match msgspec.msgpack.decode(_receive(self.pipe), type=Answer):
                    case Failed(line):
                        return f"{self.name}: {line}"
                    case _:
                        pass
        code = self.process.wait()
        return f"{self.name}: " + (f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}")

    @contextmanager
    def within(self, deadline_s: float) -> Iterator[None]:
        """Bound a message to or from the rank; raises SpadeError if the rank does not read or answer in time."""
        self.pipe.settimeout(deadline_s)
        try:
            yield
        except TimeoutError:
            raise SpadeError(f"{self.name}: silent for {deadline_s:g} s") from None

    def close(self) -> None:
        self.pipe.close()
        try:
            self.process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.descriptor)


class Ranks:
    """Ranks 1 to `count` - 1, as rank 0 sees them. A rank that neither reads nor answers for `silence_s` is lost."""

    def __init__(self, config: Config, count: int, module: str, silence_s: float) -> None:
        self._silence_s = silence_s
        self._folder = tempfile.TemporaryDirectory(prefix="spade-ranks-")
        self.meeting = str(Path(self._folder.name) / "meeting")
        self._ranks = [_Rank(module, number) for number in range(1, count)]
        for number, rank in enumerate(self._ranks, 1):
            _send(rank.pipe, Place(config, number, self.meeting))

    def tell(self, command: Command) -> None:
        """Send a command to each rank. Raises SpadeError if one is lost."""
        with self.needed():
            data = msgspec.msgpack.encode(command)
            for rank in self._ranks:
                with rank.within(self._silence_s):
                    _send_bytes(rank.pipe, data)

    def hear(self, deadline_s: float | None = None) -> list[Answer]:
        """The next answer of each rank, in order. Raises SpadeError if one is lost, or silent for `deadline_s`."""
        with self.needed():
            return [self._hear(rank, self._silence_s if deadline_s is None else deadline_s) for rank in self._ranks]

    def _hear(self, rank: _Rank, deadline_s: float) -> Answer:
        with rank.within(deadline_s):
            answer: Answer = msgspec.msgpack.decode(_receive(rank.pipe), type=Answer)
        if isinstance(answer, Failed):
            raise SpadeError(f"{rank.name}: {answer.line}")
        return answer

    @contextmanager
    def needed(self) -> Iterator[None]:
        """A block that needs every rank: a failure caused by a lost rank becomes a SpadeError with its reason."""
        try:
            yield
        except SpadeError:
            raise
        except Exception as error:
            # The sockets of a process close a moment before its end is visible.
            deadline = time.monotonic() + _GRACE_S
            while self._ranks and time.monotonic() < deadline:
                select.select([rank.descriptor for rank in self._ranks], [], [], deadline - time.monotonic())
                if gone := [rank for rank in self._ranks if rank.ended()]:
                    raise SpadeError("; ".join(rank.why() for rank in gone)) from error
            raise

    async def watch(self) -> None:
        """Raise SpadeError when a rank has ended; end the process if it goes on waiting for that rank."""
        async with trio.open_nursery() as nursery:
            for rank in self._ranks:
                nursery.start_soon(self._watch, rank)

    async def _watch(self, rank: _Rank) -> NoReturn:
        await trio.lowlevel.wait_readable(rank.descriptor)
        last = threading.Timer(_STUCK_S, os._exit, (1,))
        last.daemon = True
        last.start()
        raise SpadeError(rank.why())

    def close(self) -> None:
        """End all ranks."""
        for rank in self._ranks:
            rank.close()
        self._ranks = []
        self._folder.cleanup()


class CommandReader:
    """A rank's end of the pipe. A thread of its own reads it, and ends the process when the learner is gone."""

    def __init__(self, pipe: socket.socket) -> None:
        self._pipe = pipe
        self._commands: SimpleQueue[Command] = SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def next(self) -> Command:
        """Wait for the next command."""
        return self._commands.get()

    def answer(self, answer: Answer) -> None:
        """Send a message to the learner."""
        _send(self._pipe, answer)

    def _read(self) -> None:
        try:
            while True:
                self._commands.put(msgspec.msgpack.decode(_receive(self._pipe), type=Command))
        except (EOFError, OSError):
            os._exit(1)


def _send(pipe: socket.socket, message: msgspec.Struct) -> None:
    _send_bytes(pipe, msgspec.msgpack.encode(message))


def _send_bytes(pipe: socket.socket, data: bytes) -> None:
    pipe.sendall(len(data).to_bytes(_LENGTH_BYTES, "little") + data)


def _receive(pipe: socket.socket) -> bytes:
    return _exactly(pipe, int.from_bytes(_exactly(pipe, _LENGTH_BYTES), "little"))


def _exactly(pipe: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = pipe.recv(min(count - len(data), 1 << 20))
        if not part:
            raise EOFError("the other end is gone")
        data += part
    return bytes(data)
