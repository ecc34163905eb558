"""One life of a supervised process, from its start to the end of its process group."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
import trio

from spade import config
from spade.disk import open_to_append
from spade.processes import gpus
from spade.processes.entry import READY, RETIRE, Launch

_TAIL_BYTES = 4_096
_TAIL_LINES = 12
_MESSAGE_BYTES = 16_384


class End(NamedTuple):
    """The end of a life."""

    code: int
    """Exit code, or the negative number of a signal."""

    why: str
    """The reason in words."""

    tail: str
    """Last lines of the process's log."""


class LifeWatcher(Protocol):
    """An observer of a life: its supervisor."""

    def on_start(self, pid: int, host: str) -> None:
        """Report that the process runs. `host` is its machine, or "" for this machine."""

    def on_ready(self) -> None:
        """Report that the process is ready."""

    def on_wait(self, what: str) -> None:
        """Report that the life waits for `what`: to start the process, or to learn whether the process has ended."""


class AnyLife(Protocol):
    """One life of a process, on any machine."""

    left: str
    """Describes how the process ended after `run` was cancelled."""

    async def run(self, watcher: LifeWatcher) -> End:
        """Run the whole life. If cancelled, first drain the process and wait until its whole group is gone."""

    def retire(self) -> None:
        """Tell the process to finish its present work and leave."""


# Settings of glibc's allocator for the processes with tensors. By default it keeps freed blocks of up to 32 MiB in its
# fragmented heaps. With the threshold below, an engine returns freed blocks over 1 MiB (weights, logits) to the system
# immediately. This saves 0.4 GB with SmolLM2. A learner returns free pages after each micro-batch (`memory`). It uses
# huge pages, which are faster, because its blocks live for a layer or less.
_ALLOCATORS = {
    "engine": {"MALLOC_MMAP_THRESHOLD_": str(1 << 20), "MALLOC_ARENA_MAX": "2"},
    "learner": {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "MALLOC_ARENA_MAX": "1"},
}


class Life:
    """A process of this machine that runs `module` with the orders `launch`.

    If `run` is cancelled, it drains the process: SIGTERM, supervise.drain_s, SIGKILL. It returns when the whole process
    group is gone.
    """

    def __init__(self, module: str, launch: Launch, logfile: Path, settings: config.Supervise) -> None:
        # -P: a folder replay/ or actors/ in the working directory must not shadow our package.
        self._command = [sys.executable, "-P", "-m", __package__, module, msgspec.json.encode(launch).decode()]
        self._environment = {**_ALLOCATORS.get(launch.role, {}), **gpus.make_environment(launch.gpus, os.environ)}
        self._logfile = logfile
        self._settings = settings
        self._message = b""
        self._process: trio.Process | None = None
        self.left = "left before it was started"

    def retire(self) -> None:
        """See `AnyLife`."""
        if self._process is not None:
            with suppress(ProcessLookupError):  # the process has just ended
                os.kill(self._process.pid, RETIRE)

    async def run(self, watcher: LifeWatcher) -> End:
        """Run one life. Raises OSError if the log cannot be written or the process cannot be started."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs, open_to_append(self._logfile) as output:
                start = output.tell()
                process = self._process = await self._open(theirs.fileno(), output.fileno())
            try:
                watcher.on_start(process.pid, "")
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._listen, process, ours, watcher)
                    await _wait_for_end(process)
                    nursery.cancel_scope.cancel()
                self._message += _read_rest(ours)
            finally:
                with trio.CancelScope(shield=True):
                    code = await self._end(process)
                    self._process = None
                    self.left = _explain_end(code, b"") if code else "left in order"
        return End(code, _explain_end(code, self._message), _read_tail(self._logfile, start))

    async def _open(self, pipe: int, output: int) -> trio.Process:
        return await trio.lowlevel.open_process(
            [*self._command, str(pipe)],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(pipe,),
            process_group=0,
        )

    async def _listen(self, process: trio.Process, pipe: socket.socket, watcher: LifeWatcher) -> None:
        """Wait for the line READY, at most supervise.ready_s. Then read the last line of the process."""
        stream = trio.socket.from_stdlib_socket(pipe)
        with trio.move_on_after(self._settings.ready_s) as deadline:
            while not self._message.startswith(READY):
                if not await self._receive(stream):
                    return
        if deadline.cancelled_caught:
            self._message = f"not ready within supervise.ready_s = {self._settings.ready_s:g} s".encode()
            _kill_group(process)
            return
        self._message = self._message.removeprefix(READY)
        watcher.on_ready()
        while await self._receive(stream):
            pass

    async def _receive(self, stream: trio.socket.SocketType) -> bool:
        data = await stream.recv(_MESSAGE_BYTES)
        self._message = (self._message + data)[-_MESSAGE_BYTES:]
        return bool(data)

    async def _end(self, process: trio.Process) -> int:
        """Ask the process to leave and wait for it. Then kill the rest of its group, and reap the process."""
        os.kill(process.pid, signal.SIGTERM)
        with trio.move_on_after(self._settings.drain_s):
            await _wait_for_end(process)
        _kill_group(process)
        return await process.wait()


def _kill_group(process: trio.Process) -> None:
    # Before the process is reaped, no other group can get its number. process.kill() might reap it.
    os.killpg(process.pid, signal.SIGKILL)


async def _wait_for_end(process: trio.Process) -> None:
    """Wait for the end of a process without reaping it."""
    descriptor = os.pidfd_open(process.pid)
    try:
        await trio.lowlevel.wait_readable(descriptor)
    finally:
        os.close(descriptor)


def _read_rest(pipe: socket.socket) -> bytes:
    """Return the output that an ended process left in the pipe."""
    pipe.setblocking(False)
    with suppress(BlockingIOError):
        return pipe.recv(_MESSAGE_BYTES)
    return b""


def _explain_end(code: int, message: bytes) -> str:
    """Explain why a process ended, by its own last line if it wrote one."""
    lines = message.decode(errors="replace").replace(READY.decode(), "").strip().splitlines()
    if lines:
        return lines[-1]
    if code >= 0:
        return f"exit code {code}"
    hint = " (a full disk, or a mapped file that was cut short)" if -code == signal.SIGBUS else ""
    return f"killed by {signal.Signals(-code).name}{hint}"


def _read_tail(logfile: Path, start: int) -> str:
    """Return the last lines that were written to the log after byte `start`."""
    with logfile.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(start, size - _TAIL_BYTES))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-_TAIL_LINES:])
