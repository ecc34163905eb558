"""The host's end of a zygote (a fork server): start it, request forks, and receive reports when children or it end."""

import array
import logging
import math
import os
import resource
import secrets
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal

import trio

from actors.sandbox.inside.messages import BORN, ENDED, FAILED, FORK, MESSAGE, READY
from actors.sandbox.process import ChildProcess, make_epitaph
from actors.sandbox.tiers import Layers, make_bubblewrap_command
from spade.protocol import Faulted

START_S = 30.0
LIBRARIES_START_S = 120.0
"""Limit of the seconds in which a zygote must load its libraries and reset each of their environments once."""

FIXED_HASH_SEED = 0
"""The hash seed of the zygote that plays library environments.

Some generators of questions iterate over sets of strings. With another hash seed they ask other questions under the
same instance seed.
"""

END_S = 5.0
MOST_S = 2**31 - 1
_ROOM = socket.CMSG_SPACE(array.array("i").itemsize)
_log = logging.getLogger(__name__)
_BOOT = """
import sys
folder, control, proc, host, heavy, listed, layers = sys.argv[1:]
sys.path.insert(0, folder)
from inside.zygote import main
sys.path.remove(folder)
main(int(control), int(proc), int(host), heavy == "heavy", listed.split(), frozenset(layers.split(",")))
"""


Kind = Literal["light", "heavy", "libraries"]
"""The modules that a zygote loads: "light" has the standard library, the others also numpy, sympy and math_verify."""

Make = Callable[[socket.socket, int], ChildProcess]
"""Make the host's end of a child from its channel and its zygote's memory in bytes."""


class Zygote:
    """A running fork server. `alive` is False once it has died. All its children die with it."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._unborn: deque[ChildProcess] = deque()
        self._living: dict[int, ChildProcess] = {}
        self._turn = trio.Lock()
        self._base_bytes = 0
        self.alive = True

    async def fork(self, memory_bytes: int, processor_s: float, make: Make = ChildProcess) -> ChildProcess:
        """Fork a new child. It may add `memory_bytes` to its address space and compute for `processor_s`.

        `make` makes the host's end of the child. Its channel takes requests immediately. The zygote reports the birth
        of the child, or the failure, later.
        """
        request = MESSAGE.pack(FORK, memory_bytes, min(math.ceil(processor_s), MOST_S))
        async with self._turn:
            ours, theirs = socket.socketpair()
            process = make(ours, self._base_bytes)
            self._unborn.append(process)
            with theirs:
                try:
                    await self._ask_for(request, theirs)
                except trio.Cancelled:
                    self._unborn.pop().kill()
                    raise
        return process

    async def _ask_for(self, request: bytes, channel: socket.socket) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [channel.fileno()]))]
        while self.alive:
            try:
                self._control.sendmsg([request], rights)
                return
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._control)
            except OSError:
                return  # the zygote is dying: its listener notices and ends this child with the others

    @property
    def children(self) -> Iterable[ChildProcess]:
        """The children that are not known to be dead."""
        return chain(self._unborn, self._living.values())

    async def listen(self) -> None:
        """Take the zygote's messages until it dies."""
        while await self.hear():
            pass

    async def hear(self) -> bool:
        """Take one message. Returns False if the zygote has died."""
        await trio.lowlevel.wait_readable(self._control)
        try:
            data, ancillary, _, _ = self._control.recvmsg(MESSAGE.size, _ROOM)
        except ConnectionError:
            return False
        if data:
            kind, name, value = MESSAGE.unpack(data)
            descriptors = array.array("i", ancillary[0][2]) if ancillary else array.array("i")
            self._hear(kind, name, value, list(descriptors))
        return bool(data)

    def _hear(self, kind: int, name: int, value: int, descriptors: list[int]) -> None:
        if kind == READY:
            self._base_bytes = value * resource.getpagesize()
        elif kind == BORN:
            self._living[name] = self._unborn.popleft()
            self._living[name].born(descriptors[0])
        elif kind == ENDED:
            self._living.pop(name).ended(make_epitaph(value))
        elif kind == FAILED:
            reason = f"the zygote could not fork: {os.strerror(value)}"
            self._unborn.popleft().ended(Faulted("infrastructure", reason))

    def bury(self) -> None:
        """Record that the zygote and all its children are dead."""
        self.alive = False
        self._control.close()
        for process in self.children:
            process.ended(Faulted("infrastructure", "the zygote died"))
        self._unborn.clear()
        self._living.clear()


async def run_zygote(
    layers: Layers,
    kind: Kind,
    hash_seed: int,
    libraries: Sequence[str] = (),
    task_status: trio.TaskStatus[Zygote] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Start a zygote with this hash seed and handle its messages until it dies.

    A zygote of the kind "libraries" loads the `libraries`. Raises OSError, EOFError or trio.TooSlowError if the zygote
    does not start.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    with theirs:
        try:
            process = launch(theirs, layers, kind, hash_seed, libraries)
        except OSError:
            ours.close()
            raise
    zygote = Zygote(ours)
    try:
        with trio.fail_after(LIBRARIES_START_S if kind == "libraries" else START_S):
            if not await zygote.hear():
                raise EOFError("it ended at once")
        task_status.started(zygote)
        await zygote.listen()
        _log.warning("the sandbox's zygote died: its episodes are lost, and the next episode starts another zygote")
    finally:
        zygote.bury()
        await _end(process)


async def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a zygote after its control socket was closed. Kill it only if it does not end.

    If bubblewrap is killed while it sets up the namespaces, it leaves a process behind that waits for ever.
    """
    pidfd = os.pidfd_open(process.pid)
    with trio.move_on_after(END_S, shield=True):
        await trio.lowlevel.wait_readable(pidfd)
    os.close(pidfd)
    process.kill()
    process.wait()


def draw_hash_seed() -> int:
    """Draw a hash seed that no program can know. Never returns FIXED_HASH_SEED."""
    return 1 + secrets.randbelow(2**32 - 1)


def launch(
    control: socket.socket, layers: Layers, kind: Kind, hash_seed: int, libraries: Sequence[str]
) -> subprocess.Popen[bytes]:
    """Start the process in a session of its own, so that Ctrl-C reaches only the host."""
    light = kind == "light"
    flags = ["-P", "-s", "-B", *(["-S"] if light else [])]
    weight, listed = "light" if light else "heavy", " ".join(libraries if kind == "libraries" else ())
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)  # in the namespaces there is no /proc
    numbers = [str(control.fileno()), str(proc), str(os.getpid())]
    arguments = [str(Path(__file__).parent), *numbers, weight, listed, ",".join(sorted(layers))]
    environment = {
        "PYTHONHASHSEED": str(hash_seed),
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    try:
        # Do not use trio: it would start the process from a worker thread, and PDEATHSIG would follow that thread.
        return subprocess.Popen(
            [
                *(make_bubblewrap_command() if "namespaces" in layers else ()),
                sys.executable,
                *flags,
                "-c",
                _BOOT,
                *arguments,
            ],
            env=environment,  # all other variables of our environment stay outside
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[control.fileno(), proc],
            start_new_session=True,
        )
    finally:
        os.close(proc)
