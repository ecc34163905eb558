"""Restrict a process by Landlock, so that it opens no file and reaches no other process.

For numbers, structures and versions of the interface see linux/landlock.h and landlock(7).
"""

import ctypes
import struct

_CREATE, _RESTRICT = 444, 446  # the same on every machine
_ASK_VERSION = 1
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
"""The number of rights over files, from each of these versions of the interface on."""
_NETWORK_SINCE, _NETWORK = 4, 0b11
_SCOPES_SINCE, _SCOPES = 6, 0b11
"""Rules that keep abstract sockets and signals inside the domain."""

_libc = ctypes.CDLL(None, use_errno=True)


def read_version() -> int:
    """Return the kernel's version of the interface; 0 without Landlock."""
    return max(0, int(_libc.syscall(_CREATE, None, 0, _ASK_VERSION)))


def open_ruleset() -> int:
    """Open a descriptor of rules that deny every right that the kernel knows. Raises OSError without Landlock."""
    abi = read_version()
    if not abi:
        raise OSError("the kernel has no Landlock, or it is switched off")
    rights = (1 << max(count for since, count in _FILE_RIGHTS.items() if since <= abi)) - 1
    network = _NETWORK if abi >= _NETWORK_SINCE else 0
    scopes = _SCOPES if abi >= _SCOPES_SINCE else 0
    handled = struct.pack("=QQQ", rights, network, scopes)
    return check_result(_libc.syscall(_CREATE, handled, len(handled), 0), "landlock_create_ruleset")


def restrict(rules: int) -> None:
    """Put this process under the rules permanently. Needs no-new-privileges. Raises OSError."""
    check_result(_libc.syscall(_RESTRICT, rules, 0), "landlock_restrict_self")


def check_result(result: int, call: str) -> int:
    """Return the result of a system call. Raises OSError if the call failed."""
    if result < 0:
        raise OSError(ctypes.get_errno(), call)
    return result
