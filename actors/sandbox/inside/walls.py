"""Give up a child's rights before it runs a program: descriptors, privileges, resources, files, system calls.

The order matters:

* The channel moves to a high descriptor first. If it were 1 or 2, a program's `print` would forge frames.
* PDEATHSIG comes after the change of user, which clears it.
* Landlock and the filter come after no-new-privileges, which they need.
* The filter comes last, since it forbids most other steps.
"""

import ctypes
import errno
import os
import resource
import signal
import threading

from .landlock import open_ruleset, restrict
from .seccomp import Filter

CHANNEL = 24
RULES = 25
OPEN_FILES = 32
STACK_BYTES = 1 << 26
"""The limit of the stack. A recursion through C, such as of a cached function, takes some 500 bytes of it a level."""
NICE = 5
NOBODY = 65534

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITIES = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3 of the interface; 0 means this thread
_NONE = (ctypes.c_uint32 * 6)()  # three empty sets of capabilities: effective, permitted, inheritable (two words each)

THREAD_WORDS = 256
"""The C library has a structure for each thread. The thread's number is searched in its first THREAD_WORDS words."""
SHOWN_NUMBER = 1
"""The number that the C library keeps in a child instead of the real one. It must not be 0. The owner of a free lock is
0, so a thread 0 would believe that it holds every free lock, and OpenSSL would fail or crash."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.pthread_self.restype = ctypes.c_void_p


class Confinement:
    """Restrictions that a zygote prepares once, and that every child applies to itself.

    `layers` may name limits, landlock and seccomp. `own_bytes` is the zygote's address space. Raises OSError if this
    machine lacks a layer.
    """

    def __init__(self, layers: frozenset[str], own_bytes: int) -> None:
        self._own_bytes = own_bytes if "limits" in layers else None
        self._rules = open_ruleset() if "landlock" in layers else None
        self._numbers = find_kept_numbers()
        self._filter = Filter() if "seccomp" in layers else None

    def enclose(self, descriptor: int, zygote: int, memory_bytes: int, processor_s: int) -> None:
        """Restrict this process permanently. Only /dev/null and `descriptor`, moved to CHANNEL, stay open."""
        os.dup2(descriptor, CHANNEL)
        if self._rules is not None:
            os.dup2(self._rules, RULES)  # the rules were opened early: their low number was not overwritten by CHANNEL
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
            set_limits(self._own_bytes + memory_bytes, processor_s)
        if self._filter is not None:
            hide_numbers(self._numbers)
            self._filter.put_on()


def leave_root() -> None:
    """Change to the user nobody. If the user namespace lacks this user, give up root's capabilities. Raises OSError.

    In such a namespace, for example a container with one user, root is an ordinary user of the machine. The kernel
    refuses a change to any other user.
    """
    try:
        os.setresgid(NOBODY, NOBODY, NOBODY)
    except OSError as error:
        if error.errno != errno.EINVAL:  # EINVAL: unknown user. EPERM: root may not change its user
            raise
        if _libc.capset(_CAPABILITIES, _NONE) != 0:
            raise OSError(ctypes.get_errno(), "capset") from None
        return
    os.setgroups([])
    os.setresuid(NOBODY, NOBODY, NOBODY)


def set_limits(address_bytes: int, processor_s: int) -> None:
    """Set the limits of this process's resources. It cannot raise them again."""
    stack = resource.getrlimit(resource.RLIMIT_STACK)[1]
    for what, most in (
        (resource.RLIMIT_STACK, STACK_BYTES if stack == resource.RLIM_INFINITY else min(stack, STACK_BYTES)),
        (resource.RLIMIT_AS, address_bytes),
        (resource.RLIMIT_CPU, processor_s),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(what, (most, most))


def find_kept_numbers() -> list[int]:
    """Return the addresses at which the C library may keep this thread's number. They are the same in a child."""
    start = _libc.pthread_self()
    words = (ctypes.c_int * THREAD_WORDS).from_address(start)
    return [start + 4 * index for index, word in enumerate(words) if word == threading.get_native_id()]


def hide_numbers(places: list[int]) -> None:
    """Overwrite this child's number by SHOWN_NUMBER at each address in `places` that holds it.

    `places` come from the zygote's `find_kept_numbers`. Some places held the zygote's number only by chance, since
    numbers in a namespace are small. Such a place does not hold the child's number and is left unchanged.
    """
    own = threading.get_native_id()
    for place in places:
        word = ctypes.c_int.from_address(place)
        if word.value == own:
            word.value = SHOWN_NUMBER


def count_pages(proc: int) -> tuple[int, int]:
    """Count the pages of this process's address space, and its resident pages not backed by a file. Closes `proc`."""
    statm = os.open("self/statm", os.O_RDONLY, dir_fd=proc)
    size, resident, shared, *_ = (int(word) for word in os.read(statm, 256).split())
    os.close(statm)
    os.close(proc)
    return size, resident - shared


def control(option: int, value: int) -> None:
    """Call prctl(option, value). Raises OSError if it fails."""
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value})")


def die_with(parent: int) -> None:
    """Have the kernel kill this process when `parent` dies. Exit if `parent` is dead already."""
    control(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
