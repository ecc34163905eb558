"""The rights a child gives up before it meets a program: descriptors, privileges, resources, files, system calls.

The order matters. The channel moves to a high descriptor first: were it 1 or 2, a program's `print` would forge frames.
PDEATHSIG comes after the change of user, which clears it; Landlock and the filter need no-new-privileges; the filter
comes last, since it forbids most of the rest.
"""

import ctypes
import errno
import os
import resource
import signal
import threading

from .landlock import restrict, ruleset
from .seccomp import Filter

CHANNEL = 24
RULES = 25
OPEN_FILES = 32
NICE = 5
NOBODY = 65534

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITIES = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3 of the call, this thread
_NONE = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, each in two words

THREAD_WORDS = 256
"""Words of the C library's description of a thread among which its number is looked for."""
SHOWN_NUMBER = 1
"""The number that the C library keeps in a child instead of the real one. It must not be 0: an unlocked lock has the
owner 0, so a thread with that number takes each free lock for its own, and OpenSSL fails or crashes."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.pthread_self.restype = ctypes.c_void_p


class Walls:
    """Walls that a zygote prepares once, for every child to raise around itself.

    `layers` may name limits, landlock and seccomp; `own_bytes` is the zygote's address space. Raises OSError where this
    machine lacks a layer.
    """

    def __init__(self, layers: frozenset[str], own_bytes: int) -> None:
        self._own_bytes = own_bytes if "limits" in layers else None
        self._rules = ruleset() if "landlock" in layers else None
        self._numbers = kept_numbers()
        self._filter = Filter() if "seccomp" in layers else None

    def enclose(self, descriptor: int, zygote: int, memory_bytes: int, processor_s: int) -> None:
        """Raise the walls around this process. Only /dev/null and `descriptor`, as CHANNEL, stay open."""
        os.dup2(descriptor, CHANNEL)
        if self._rules is not None:
            os.dup2(self._rules, RULES)  # opened early, so it has a low number
        for standard in (0, 2):
            os.dup2(1, standard)  # the zygote's standard output is /dev/null
        os.closerange(3, CHANNEL)
        os.closerange(CHANNEL + 1 if self._rules is None else RULES + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        if os.geteuid() == 0:
            leave_root()
        die_with(zygote)
        control(_PR_SET_NO_NEW_PRIVS, 1)
        control(_PR_SET_DUMPABLE, 0)
        os.nice(NICE)
        if self._rules is not None:
            restrict(RULES)
            os.close(RULES)
        if self._own_bytes is not None:
            limit(self._own_bytes + memory_bytes, processor_s)
        if self._filter is not None:
            hide_numbers(self._numbers)
            self._filter.put_on()


def leave_root() -> None:
    """Become nobody; where the user namespace has no such user, give up what root may do in it. Raises OSError.

    There, as in a container with one user, root is an ordinary user outside, and the kernel refuses any other.
    """
    try:
        os.setresgid(NOBODY, NOBODY, NOBODY)
    except OSError as error:
        if error.errno != errno.EINVAL:  # no such user; EPERM is a root without the right to change
            raise
        if _libc.capset(_CAPABILITIES, _NONE) != 0:
            raise OSError(ctypes.get_errno(), "capset") from None
        return
    os.setgroups([])
    os.setresuid(NOBODY, NOBODY, NOBODY)


def limit(address_bytes: int, processor_s: int) -> None:
    """Set the hard limits of resources."""
    for what, most in (
        (resource.RLIMIT_AS, address_bytes),
        (resource.RLIMIT_CPU, processor_s),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(what, (most, most))


def kept_numbers() -> list[int]:
    """Return the addresses at which the C library may keep this thread's number; they are the same in a child."""
    start = _libc.pthread_self()
    words = (ctypes.c_int * THREAD_WORDS).from_address(start)
    return [start + 4 * index for index, word in enumerate(words) if word == threading.get_native_id()]


def hide_numbers(places: list[int]) -> None:
    """Write SHOWN_NUMBER over this child's number at those `places` of the zygote's `kept_numbers` that hold it.

    A place that does not hold it was equal to the zygote's number by chance: numbers are small in a namespace.
    """
    own = threading.get_native_id()
    for place in places:
        word = ctypes.c_int.from_address(place)
        if word.value == own:
            word.value = SHOWN_NUMBER


def pages(proc: int) -> tuple[int, int]:
    """Pages of this process: of its address space, and resident ones without a file behind them. Closes `proc`."""
    statm = os.open("self/statm", os.O_RDONLY, dir_fd=proc)
    size, resident, shared, *_ = (int(word) for word in os.read(statm, 256).split())
    os.close(statm)
    os.close(proc)
    return size, resident - shared


def control(option: int, value: int) -> None:
    """prctl(option, value). Raises OSError."""
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value})")


def die_with(parent: int) -> None:
    """Have the kernel kill this process when `parent` dies; exit if it is dead already."""
    control(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
