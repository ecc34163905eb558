"""The host's end of one child. It sends requests with a deadline and turns every failure into a typed fault."""

import math
import os
import re
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

import trio

from actors.sandbox.inside.messages import FRAME_BYTES, LENGTH
from actors.sandbox.wire import (
    ExecutionReply,
    ExecutionRequest,
    FailureReply,
    InspectReply,
    LoadProgram,
    LoadReply,
    Request,
    SolutionReply,
    StepReply,
    pack,
    unpack,
)
from spade.config import PATIENCE
from spade.decoding import UnreadableError
from spade.protocol import Faulted

DETAIL_CHARACTERS = 2_000
END_S = 30.0
"""Longest wait for the zygote's report that a child has ended, s. A busy machine delays the report. A play without the
report is played again. With a short wait, a program could exit in the plays that it loses, and have them repeated."""
OVERTIME_S = 0.05
"""Limit of the processor time between an answer and the next request. Honest programs take tens of microseconds."""
LOOK_S = 0.01
"""The shortest pause between two readings of the processor time of a child that is close to its limit."""
_SCHEDULED = 2  # CPUCLOCK_SCHED of linux/posix-timers.h
_RESIDENT = re.compile(rb"^Rss(?:Anon|Shmem):\s+(\d+) kB", re.MULTILINE)
_SIGNALS = {each.value: each.name for each in signal.Signals}  # Python names few of the real-time signals

Answer = LoadReply | StepReply | InspectReply | SolutionReply | ExecutionRequest | ExecutionReply


class ChildProcess:
    """One child and its private channel. After the first fault the child is killed."""

    def __init__(self, channel: socket.socket, base_bytes: int = 0) -> None:
        channel.setblocking(False)
        self._channel = channel
        self._pidfd: int | None = None
        self._pid = 0
        self._base_bytes = base_bytes
        self._killed = False
        self._ended = trio.Event()
        self._epitaph = Faulted("infrastructure", "the zygote did not say how the child ended")
        self._verdict: Faulted | None = None
        self._since_s: float | None = 0.0
        self._answered = False
        self.counted_s = 0.0
        """The sum over all requests: processor seconds, or the clock's seconds / PATIENCE if that is more."""
        self.left_s = math.inf
        """The seconds by the clock that are left for all further requests together."""
        self.program = ""
        """The source that the child runs."""
        self.stage = "class"
        """The stage of the last request: "class" or "play", or the stage that the child names in a fault."""
        self.frame_bytes = FRAME_BYTES
        """The largest size of an answer, in bytes."""

    # ------------------------------------------------------------ reports of the zygote

    def born(self, pidfd: int) -> None:
        """Record that the child exists. If `kill` was called before its birth, kill it now."""
        self._pidfd = pidfd
        self._pid = read_pid(pidfd)
        if self._killed:
            self._signal()
        elif self._since_s is None:
            self._look()

    def ended(self, epitaph: Faulted) -> None:
        """Record that the child is dead and reaped, that its fork failed, or that its state is unknown."""
        self._epitaph = epitaph
        self._ended.set()
        self.kill()

    # ------------------------------------------------------------ calls of the host

    def grown(self) -> int:
        """Return by how many bytes the child's memory has grown since the fork. Memory that files back does not count.
        Returns 0 if the child is dead."""
        try:
            return max(count_private_bytes(self._pid) - self._base_bytes, 0) if self._pidfd is not None else 0
        except (FileNotFoundError, ProcessLookupError):
            return 0

    def computed_s(self) -> float:
        """Return the processor seconds since the last request or answer. Returns 0 if they are unknown or if the child
        is dead.

        The kernel counts them, so that no program can change them.
        """
        if self._since_s is None or self._pidfd is None:
            return 0.0
        with suppress(OSError):
            return read_processor_s(self._pid) - self._since_s
        return 0.0

    def _look(self) -> None:
        """Start counting the processor time now, or at the child's birth if that is not reported yet."""
        self._since_s = None
        if self._pidfd is not None:
            with suppress(OSError):
                self._since_s = read_processor_s(self._pid)

    def stop_overtime(self) -> None:
        """Kill the child if it computes between an answer and the next request."""
        overtime_s = self.computed_s() if self._answered else 0.0
        if overtime_s > OVERTIME_S:
            self.end(Faulted("timeout", f"the program computed for {overtime_s:.2f} s after its answer"))

    def end(self, fault: Faulted) -> None:
        """Kill the child. Further requests are answered with `fault`."""
        self._verdict = fault
        self.kill()

    def kill(self) -> None:
        """Kill the child and close the channel. Idempotent."""
        if not self._killed:
            self._killed = True
            trio.lowlevel.notify_closing(self._channel)
            self._channel.close()
        self._signal()

    def _signal(self) -> None:
        if self._pidfd is None:
            return
        with suppress(ProcessLookupError):  # dead already
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        os.close(self._pidfd)
        self._pidfd = None

    async def request(self, request: Request, deadline_s: float) -> Answer | Faulted:
        """Send one request and return its answer. After a fault the child is dead.

        The child may compute for `deadline_s`, and take PATIENCE times as long by the clock, but not over `left_s`.
        """
        within_s = PATIENCE * deadline_s
        late = f"no answer within {within_s:g} s"
        if self.left_s < within_s:
            within_s, late = self.left_s, "the answers of this play took too long together, by the clock"
        answer: Answer | Faulted = Faulted("timeout", late)
        self.stage = "class" if isinstance(request, LoadProgram) else "play"
        self.stop_overtime()
        if self._answered:
            self._look()
        self._answered, began = False, trio.current_time()
        try:
            try:
                with trio.move_on_after(max(within_s, 0.0)):
                    answer = await self._exchange(request, deadline_s)
            finally:
                passed_s = trio.current_time() - began
                self.counted_s += max(self.computed_s(), passed_s / PATIENCE)
                self.left_s -= passed_s
        except BaseException:
            self.kill()  # cancelled during the request, so the child's state is unknown
            raise
        if isinstance(answer, Faulted):
            self.kill()
        else:
            self._answered = True
            self._look()
        return answer

    async def _exchange(self, request: Request, deadline_s: float) -> Answer | Faulted:
        nonce = token_hex(8)
        try:
            if self._has_unsolicited():
                return Faulted("protocol", "the program wrote to the private channel")
            await self._send(pack(request, nonce))
            body = await self._receive(deadline_s)
        except trio.TooSlowError:
            return Faulted("timeout", f"no answer within {deadline_s:g} s of processor time")
        except (EOFError, OSError, trio.ClosedResourceError):
            return await self._read_obituary()
        if body is None:
            return Faulted("protocol", f"the answer is not one frame of at most {self.frame_bytes} bytes")
        try:
            answer = unpack(body)
        except UnreadableError as error:
            return Faulted("protocol", f"the answer does not decode: {error}")
        if answer.nonce != nonce:
            return Faulted("protocol", "the answer does not name the present request")
        if isinstance(answer, FailureReply):
            self.stage = answer.stage
            return Faulted(answer.kind, answer.detail[:DETAIL_CHARACTERS])
        return answer

    def _has_unsolicited(self) -> bool:
        try:
            if not self._channel.recv(1, socket.MSG_PEEK):
                raise EOFError
        except BlockingIOError:
            return False
        return True

    async def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self._channel.send(view) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._channel)

    async def _receive(self, deadline_s: float) -> bytes | None:
        """Read the body of one frame. Returns None if the frame is too long or followed by more bytes."""
        data = bytearray()
        while True:
            await self._wait_readable(deadline_s)
            more = self._channel.recv(1 << 16)
            if not more:
                raise EOFError
            data += more
            if len(data) < LENGTH.size:
                continue
            total = LENGTH.size + LENGTH.unpack_from(data)[0]
            if total > LENGTH.size + self.frame_bytes or len(data) > total:
                return None
            if len(data) == total:
                return bytes(data[LENGTH.size :])

    async def _wait_readable(self, deadline_s: float) -> None:
        """Wait for bytes of the child. Raises TooSlowError if the child has used `deadline_s` of processor time."""
        while (left_s := deadline_s - self.computed_s()) > 0:
            # The child uses at most one processor, so it cannot be late before `left_s` have passed by the clock.
            with trio.move_on_after(max(left_s, LOOK_S)):
                await trio.lowlevel.wait_readable(self._channel)
                return
        raise trio.TooSlowError

    async def _read_obituary(self) -> Faulted:
        """Return how the child ended, as the zygote reports. Kill it first if it only closed its channel."""
        self.kill()
        with trio.move_on_after(END_S):
            await self._ended.wait()
        return self._verdict or self._epitaph


def read_pid(pidfd: int) -> int:
    """Return the number, in our namespace, of the process that `pidfd` refers to. Returns -1 if the process is gone."""
    fields = dict(line.split(":\t") for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines())
    return int(fields["Pid"])


def count_private_bytes(pid: int) -> int:
    """Return the resident bytes of a process that no file backs, including shared memory.

    Raises FileNotFoundError or ProcessLookupError if it is gone.
    """
    status = os.open(f"/proc/{pid}/status", os.O_RDONLY)
    try:
        lines = os.read(status, 4096)
    finally:
        os.close(status)
    return sum(1024 * int(kib) for kib in _RESIDENT.findall(lines))


def read_processor_s(pid: int) -> float:
    """Return the processor seconds of a process since its birth. Raises OSError if it is gone."""
    if pid < 0:
        raise ProcessLookupError  # -1 would be the clock of this process
    return time.clock_gettime(~pid << 3 | _SCHEDULED)


def make_epitaph(code: int) -> Faulted:
    """Return the fault of a child that ended. `code` is its exit status, or minus the signal that ended it."""
    how = f"exit status {code}" if code >= 0 else f"signal {_SIGNALS.get(-code, -code)}"
    how += " (a system call that no honest program makes)" if code == -signal.SIGSYS else ""
    return Faulted("died", f"the program's process ended: {how}")
