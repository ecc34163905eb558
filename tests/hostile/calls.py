"""System calls by number, past Python and the C library; and memory to run code from."""

import os

from actors.sandbox.inside.calls import KILLED, number_calls
from tests.hostile.hostile import Hostile, attack

MACHINE = os.uname().machine
LIBC = "libc = ctypes.CDLL(None, use_errno=True)\n"

REFUSED = {
    "x86_64": {
        "clone": 56, "vfork": 58, "clone3": 435, "socket": 41, "socketpair": 53, "sendmsg": 46, "kill": 62, "tkill": 200,
        "tgkill": 234, "openat2": 437, "creat": 85, "memfd_create": 319, "shmget": 29, "shmat": 30, "msgget": 68,
        "semget": 64, "pipe2": 293, "eventfd2": 290, "timerfd_create": 283, "signalfd4": 289, "epoll_create1": 291,
        "inotify_init1": 294, "dup3": 292, "fcntl": 72, "ioctl": 16, "prctl": 157, "arch_prctl": 158, "prlimit64": 302,
        "setuid": 105, "capset": 126, "statx": 332, "pkey_mprotect": 329, "remap_file_pages": 216, "splice": 275,
        "mq_open": 240, "landlock_create_ruleset": 444, "no such call": 999,
    },
    "aarch64": {
        "clone": 220, "clone3": 435, "socket": 198, "socketpair": 199, "sendmsg": 211, "kill": 129, "tkill": 130,
        "tgkill": 131, "openat2": 437, "memfd_create": 279, "shmget": 194, "shmat": 196, "msgget": 186, "semget": 190,
        "pipe2": 59, "eventfd2": 19, "timerfd_create": 85, "signalfd4": 74, "epoll_create1": 20, "inotify_init1": 26,
        "dup3": 24, "fcntl": 25, "ioctl": 29, "prctl": 167, "prlimit64": 261, "setuid": 146, "capset": 91, "statx": 291,
        "pkey_mprotect": 288, "remap_file_pages": 234, "splice": 76, "mq_open": 180, "landlock_create_ruleset": 444,
        "no such call": 999,
    },
}  # fmt: skip


def refused(name: str, number: int) -> Hostile:
    """EPERM is what the filter says; any other answer came from the kernel behind it."""
    code = (
        LIBC + f"if libc.syscall({number}, -1, 0, 0, 0, 0, 0) == -1 and ctypes.get_errno() == 1: raise PermissionError"
    )
    return attack(f"call {name}", code)


def killed(name: str, number: int) -> Hostile:
    return attack(f"call {name}", LIBC + f"libc.syscall({number}, -1, 0, 0, 0, 0, 0)", "died")


def mapped(name: str, code: str) -> Hostile:
    """The C library's memory calls; -1 is refused."""
    module = "libc = ctypes.CDLL(None, use_errno=True)\nlibc.mmap.restype = ctypes.c_long\n"
    module += "def checked(result):\n    if result == -1: raise PermissionError\n    return result\n"
    return attack(name, code, module=module)


PAGE = "page = checked(libc.mmap(None, 4096, 3, 0x22, -1, 0))\n"

CODE = [
    mapped("a page to write and execute", "checked(libc.mmap(None, 4096, 7, 0x22, -1, 0))"),
    mapped("a page to execute", "checked(libc.mmap(None, 4096, 5, 0x22, -1, 0))"),
    mapped("a written page made executable", PAGE + "checked(libc.mprotect(ctypes.c_long(page), 4096, 5))"),
    mapped("code made writable", "code = ctypes.cast(libc.getpid, ctypes.c_void_p).value & ~4095\nchecked(libc.mprotect(ctypes.c_long(code), 4096, 7))"),
    mapped("a library mapped as code", "fd = os.open(ctypes.__file__, os.O_RDONLY)\nchecked(libc.mmap(None, 4096, 5, 2, fd, 0))"),
    attack("an extension module of its own", "import importlib.machinery as m\nm.ExtensionFileLoader('x', '$FOLDER/x.so').create_module(m.ModuleSpec('x', None))"),
    attack("a library from elsewhere", "ctypes.CDLL('$FOLDER/x.so')"),
]  # fmt: skip

X32 = (
    [
        attack("getpid through the x32 table", LIBC + "libc.syscall(0x40000000 | 39)", "died"),
        attack("execve through the x32 table", LIBC + "libc.syscall(0x40000000 | 520, 0, 0, 0)", "died"),
        attack("socket through the x32 table", LIBC + "libc.syscall(0x40000000 | 41, 2, 1, 0)", "died"),
    ]
    if MACHINE == "x86_64"
    else []
)

PROGRAMS = [
    *(killed(name, number) for name, number in number_calls(KILLED, MACHINE).items()),
    *(refused(name, number) for name, number in REFUSED[MACHINE].items()),
    *CODE,
    *X32,
]
