"""The filter of system calls: an allow-list as a classic BPF program. A process installs it for itself, permanently.

For the layout of the program and of its input see linux/filter.h, linux/seccomp.h and seccomp(2).
"""

import ctypes
import errno
import os
import struct
from collections.abc import Iterator

from . import calls

_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_ALLOW, _KILL, _ANSWER = 0x7FFF0000, 0x80000000, 0x00050000
_REFUSE, _ABSENT, _ZERO = _ANSWER | errno.EPERM, _ANSWER | errno.ENOENT, _ANSWER
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
"""The bit of a call's number that selects another ABI (x32) on x86-64."""

_PR_SET_SECCOMP, _FILTER_MODE = 22, 2

Instruction = tuple[int, int, int, int]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


class Filter:
    """A filter that any number of processes can install. Raises OSError if `calls` has no numbers for this machine."""

    def __init__(self) -> None:
        machine = os.uname().machine
        if machine not in _AUDIT:
            raise OSError(errno.ENOSYS, f"no table of system calls for {machine}")
        packed = b"".join(struct.pack("=HBBI", *each) for each in make_program(machine))
        self._instructions = ctypes.create_string_buffer(packed, len(packed))
        self._program = _Program(len(packed) // 8, ctypes.addressof(self._instructions))

    def put_on(self) -> None:
        """Put this process and its descendants under the filter permanently. Needs no-new-privileges. Raises
        OSError."""
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_SECCOMP, _FILTER_MODE, ctypes.byref(self._program), 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_SECCOMP)")


def make_program(machine: str) -> list[Instruction]:
    """Return the instructions of the filter: (code, jump if true, jump if false, constant).

    For each call with a fixed verdict, one check jumps to a return at the end.
    """
    verdicts = (
        (calls.ALLOWED, _ALLOW),
        (calls.KILLED, _KILL),
        (calls.ABSENT, _ABSENT),
        (calls.NOBODYS, _ZERO),
    )
    checks = [
        (number, verdict) for table, verdict in verdicts for number in calls.number_calls(table, machine).values()
    ]
    conditions = list(_make_conditions(machine))
    returns = (_REFUSE, _ALLOW, _KILL, _ABSENT, _ZERO)
    body = len(checks) + len(conditions)

    def away(at: int, verdict: int) -> int:
        return body - at - 1 + returns.index(verdict)

    beyond = [(_AT_LEAST, away(-1, _KILL), 0, _X32)] if machine == "x86_64" else []
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _AUDIT[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        *beyond,
        *((_EQUAL, away(at, verdict), 0, number) for at, (number, verdict) in enumerate(checks)),
        *conditions,
        *((_RETURN, 0, 0, verdict) for verdict in returns),
    ]


def _make_conditions(machine: str) -> Iterator[Instruction]:
    """Yield instructions for the calls in HELD. They allow a call if all its conditions hold, and refuse it otherwise.

    They load only the low half of a 64-bit argument. It comes first on both machines.
    """
    for name, number in calls.number_calls(calls.HELD, machine).items():
        held: list[Instruction] = []
        for argument, mask, values in calls.CONDITIONS[name]:
            held += [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument), (_AND, 0, 0, mask)]
            held += [(_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
            held.append((_RETURN, 0, 0, _REFUSE))
        held.append((_RETURN, 0, 0, _ALLOW))
        yield _EQUAL, 0, len(held), number
        yield from held
