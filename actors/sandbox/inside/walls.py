"""What a child gives up before it meets a program: descriptors, privileges, resources.

The order matters. The channel moves to a high descriptor first: were it 1 or 2, a program's `print` would forge frames.
PDEATHSIG comes after the change of user, which clears it.
"""

import ctypes
import fcntl
import os
import resource
import signal

CHANNEL = 24
OPEN_FILES = 32
CPU_S = 60
NOBODY = 65534

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38

_libc = ctypes.CDLL(None, use_errno=True)


def address_space() -> int:
    """Virtual size of this process, in bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def control(option: int, value: int) -> None:
    """prctl(option, value). Raises OSError."""
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value})")


def die_with(parent: int) -> None:
    """Die when `parent` does, also where it is dead already."""
    control(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def enclose(descriptor: int, zygote: int, address_bytes: int) -> int:
    """Raise every wall around this process; return the channel's descriptor, the only open one beside /dev/null."""
    channel = fcntl.fcntl(descriptor, fcntl.F_DUPFD, CHANNEL)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.closerange(3, channel)
    os.closerange(channel + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    die_with(zygote)
    control(_PR_SET_NO_NEW_PRIVS, 1)
    control(_PR_SET_DUMPABLE, 0)
    for what, most in (
        (resource.RLIMIT_AS, address_bytes),
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(what, (most, most))
    return channel
