"""The fork server: one trusted process that forks a child for every episode and never runs a program itself.

The control socket keeps message boundaries. If it closes, or if the host dies, the zygote ends with all its children.

* Host to zygote: FORK (the child's bytes of memory and seconds of processor time), with the child's end of its channel.
* Zygote to host, once: READY (the number of its private pages).
* Zygote to host, for every fork in turn: BORN with the child's name and pidfd, or FAILED (errno).
* Zygote to host, for every child: ENDED (exit status, or minus the signal).

A child is a copy of this process, and its program may read all of its memory. So the zygote remembers nothing of its
children. The kernel does: the name of a child is the number of its pidfd in the zygote. A child leaves the zygote's
stack frames before it runs its program.
"""

import array
import ctypes
import gc
import os
import resource
import select
import socket
import sys
import threading
from collections.abc import Sequence

from . import child, given, imports, libraries, walls
from .messages import BORN, ENDED, FAILED, MESSAGE, READY


def main(control: int, proc: int, host: int, heavy: bool, listed: Sequence[str], layers: frozenset[str]) -> None:
    """Serve until the host closes the control socket. In a child, serve its episode. Never returns."""
    status = 1
    try:
        if "namespaces" not in layers:  # in a namespace, the zygote cannot see its parent
            walls.die_with(host)
        prepare(heavy, listed)
        if serve(control, proc, layers):
            gc.enable()
            child.serve(walls.CHANNEL)
        status = 0
    finally:
        os._exit(status)  # exit immediately, because nothing needs the interpreter's cleanup


def prepare(heavy: bool, listed: Sequence[str]) -> None:
    """Load what every child shares, including the `listed` libraries, and hide the arguments of the command line."""
    # Automatic collection of garbage stays off. The count of collections would tell a child how many came before it.
    gc.disable()
    given.load_time_zones()
    if heavy:
        given.load_heavy()
    given.GIVEN.update(libraries.load(listed))
    imports.allow_imports((*(imports.PACKAGES if heavy else ()), *libraries.list_packages(listed)))
    os.chdir("/")
    sys.argv[:], sys.orig_argv[:] = [""], []
    threading.main_thread()._native_id = 0  # type: ignore[attr-defined]
    # Objects that exist now are never garbage. A child that collected them would only copy their pages.
    gc.collect()
    gc.freeze()


def serve(control: int, proc: int, layers: frozenset[str]) -> bool:
    """Fork children and report their ends. Returns False if the host has gone, and True in a confined child."""
    size, private = walls.count_pages(proc)
    confinement = walls.Confinement(layers, size * resource.getpagesize())
    zygote = ForkServer(socket.socket(fileno=control), confinement)
    zygote.tell(READY, 0, private)
    while True:
        for descriptor, _ in zygote.events.poll():
            if descriptor != control:
                zygote.reap(descriptor)
            else:
                wanted = zygote.requested()
                if wanted is None:
                    return False
                if zygote.fork(*wanted):
                    return True


_libc = ctypes.PyDLL(None, use_errno=True)
"""Used for `fork`. `os.fork` would also prepare the child for threads and seed its generators. This would cause a tenth
of the child's page faults."""


class ForkServer:
    """Forks children as the host requests, and reports how they end."""

    def __init__(self, control: socket.socket, confinement: walls.Confinement) -> None:
        self.control = control
        self.confinement = confinement
        self.pid = os.getpid()
        self.events = select.epoll()
        self.events.register(control, select.EPOLLIN)

    def requested(self) -> tuple[int, int, int] | None:
        """Read a request: a child's channel, memory (bytes) and processor time (s). None if the host has gone."""
        room = socket.CMSG_SPACE(array.array("i").itemsize)
        try:
            data, ancillary, _, _ = self.control.recvmsg(MESSAGE.size, room)
        except ConnectionError:
            return None
        if not data:
            return None
        _, memory_bytes, processor_s = MESSAGE.unpack(data)
        return array.array("i", ancillary[0][2])[0], memory_bytes, processor_s

    def fork(self, channel: int, memory_bytes: int, processor_s: int) -> bool:
        """Fork a child and restrict it (`walls`). Returns True in the child and False in the zygote."""
        pid = _libc.fork()
        if pid < 0:
            self.tell(FAILED, 0, ctypes.get_errno())
        else:
            if pid == 0:
                self.events.close()
                self.control.close()
                self.confinement.enclose(channel, self.pid, memory_bytes, processor_s)
                return True
            pidfd = os.pidfd_open(pid)
            self.events.register(pidfd, select.EPOLLIN)
            self.tell(BORN, pidfd, 0, pidfd)
        os.close(channel)
        return False

    def reap(self, pidfd: int) -> None:
        ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
        assert ended is not None, "a pidfd is readable when its process has ended"
        self.tell(ENDED, pidfd, ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status)
        self.events.unregister(pidfd)
        os.close(pidfd)

    def tell(self, kind: int, name: int, value: int, *descriptors: int) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        self.control.sendmsg([MESSAGE.pack(kind, name, value)], rights)
