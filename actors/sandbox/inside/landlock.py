"""The domain of files and names: a program reads its libraries, and nothing else, and reaches nobody.

Numbers, structures and the growth of the interface: linux/landlock.h, landlock(7).
"""

import ctypes
import os
import struct
from collections.abc import Iterable

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446  # the same on every machine
_ASK_VERSION = 1
_BENEATH = 1
_READ_FILE, _READ_DIRECTORY = 1 << 2, 1 << 3
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
"""From this version of the interface on there are so many rights over files."""
_NETWORK_SINCE, _NETWORK = 4, 0b11
_SCOPES_SINCE, _SCOPES = 6, 0b11
"""Abstract sockets and signals stay inside of the domain."""

_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """The kernel's version of the interface; 0 where there is none."""
    return max(0, int(_libc.syscall(_CREATE, None, 0, _ASK_VERSION)))


def ruleset(readable: Iterable[str]) -> int:
    """A descriptor of the rules: reading beneath these folders, nothing else. Raises OSError where there is none."""
    abi = version()
    if not abi:
        raise OSError("the kernel has no Landlock, or it is switched off")
    rights = (1 << max(count for since, count in _FILE_RIGHTS.items() if since <= abi)) - 1
    network = _NETWORK if abi >= _NETWORK_SINCE else 0
    scopes = _SCOPES if abi >= _SCOPES_SINCE else 0
    handled = struct.pack("=QQQ", rights, network, scopes)
    rules = checked(_libc.syscall(_CREATE, handled, len(handled), 0), "landlock_create_ruleset")
    for path in readable:
        if os.path.isdir(path):
            folder = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            rule = struct.pack("=Qi", _READ_FILE | _READ_DIRECTORY, folder)
            checked(_libc.syscall(_ADD_RULE, rules, _BENEATH, rule, 0), "landlock_add_rule")
            os.close(folder)
    return rules


def restrict(rules: int) -> None:
    """Enter a domain of one's own under these rules. Needs no-new-privileges. Raises OSError."""
    checked(_libc.syscall(_RESTRICT, rules, 0), "landlock_restrict_self")


def checked(result: int, call: str) -> int:
    """The result of a system call. Raises OSError."""
    if result < 0:
        raise OSError(ctypes.get_errno(), call)
    return result
