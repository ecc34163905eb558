"""The fork server: one trusted process that forks a child for every episode and never runs a program itself.

The control socket keeps message boundaries. Host to zygote: FORK with the child's end of the episode's channel.
Zygote to host: READY (its private pages) once; BORN with the child's pidfd, or FAILED (errno), for every fork; ENDED
(wait status) for every child. Its end, or the host's death, ends the zygote and with it every child.
"""

import array
import gc
import os
import select
import socket
from contextlib import suppress

from . import child, given, walls
from .messages import BORN, ENDED, FAILED, MESSAGE, READY


def main(control: int, host: int, heavy: bool, memory_bytes: int, layers: frozenset[str]) -> None:
    """Serve until the host closes the control socket."""
    if "namespaces" not in layers:  # there no parent can be seen
        walls.die_with(host)
    if heavy:
        given.load_heavy()
    # What exists now is never garbage; collecting it in a child would only copy pages.
    gc.collect()
    gc.freeze()
    with suppress(ConnectionError):  # the host left without reading to the end
        Zygote(socket.socket(fileno=control), walls.Walls(layers, memory_bytes)).serve()
    os._exit(0)  # at once: nothing here needs an interpreter's farewell


class Zygote:
    """The loop over the control socket and the ends of the children."""

    def __init__(self, control: socket.socket, raised: walls.Walls) -> None:
        self.control = control
        self.walls = raised
        self.pid = os.getpid()
        self.children: dict[int, tuple[int, int]] = {}  # pidfd: number, pid
        self.events = select.epoll()

    def serve(self) -> None:
        self.events.register(self.control, select.EPOLLIN)
        self.tell(READY, 0, walls.private_pages())
        while True:
            for descriptor, _ in self.events.poll():
                if descriptor in self.children:
                    self.reap(descriptor)
                elif not self.fork():
                    return

    def fork(self) -> bool:
        """Serve one request; False where the host has gone."""
        room = socket.CMSG_SPACE(array.array("i").itemsize)
        data, ancillary, _, _ = self.control.recvmsg(MESSAGE.size, room)
        if not data:
            return False
        _, number, _ = MESSAGE.unpack(data)
        (descriptor,) = array.array("i", ancillary[0][2])
        try:
            pid = os.fork()
        except OSError as error:
            self.tell(FAILED, number, error.errno or 0)
        else:
            if pid == 0:
                child.run(descriptor, self.pid, self.walls)
            pidfd = os.pidfd_open(pid)
            self.children[pidfd] = (number, pid)
            self.events.register(pidfd, select.EPOLLIN)
            self.tell(BORN, number, 0, pidfd)
        os.close(descriptor)
        return True

    def reap(self, pidfd: int) -> None:
        number, pid = self.children.pop(pidfd)
        self.events.unregister(pidfd)
        os.close(pidfd)
        _, status = os.waitpid(pid, 0)
        self.tell(ENDED, number, status)

    def tell(self, kind: int, number: int, value: int, *descriptors: int) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        self.control.sendmsg([MESSAGE.pack(kind, number, value)], rights)
