"""The filter of system calls, run by a small interpreter of the kernel's instructions, for both machines."""

import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.sandbox.inside import calls
from actors.sandbox.inside.seccomp import program

ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050001
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
MACHINES = pytest.mark.parametrize("machine", list(ARCHITECTURES))


def verdict(machine, number, *arguments, architecture=None, reading=True):
    """What the kernel would say: classic BPF over struct seccomp_data."""
    architecture = ARCHITECTURES[machine] if architecture is None else architecture
    data = struct.pack("<iIQ6Q", number, architecture, 0, *(*arguments, *[0] * 6)[:6])
    instructions, at, loaded = program(machine, reading), 0, 0
    while True:
        code, if_true, if_false, constant = instructions[at]
        at += 1
        if code == 0x06:
            return constant
        if code == 0x20:
            (loaded,) = struct.unpack_from("<I", data, constant)
        else:
            holds = {0x15: loaded == constant, 0x35: loaded >= constant, 0x45: bool(loaded & constant)}[code]
            at += if_true if holds else if_false


@MACHINES
def test_every_call_gets_the_verdict_of_its_table(machine):
    for table, expected in ((calls.ALLOWED, ALLOW), (calls.KILLED, KILL)):
        for name, number in calls.numbered(table, machine).items():
            assert verdict(machine, number) == expected, name
    listed = {**calls.ALLOWED, **calls.KILLED, **calls.READ_ONLY, **calls.NOT_EXECUTABLE}
    numbers = set(calls.numbered(listed, machine).values())
    assert len(numbers) == len(calls.numbered(listed, machine)), "two calls of one number"
    for number in set(range(600)) - numbers:
        assert verdict(machine, number) == REFUSE, number


@MACHINES
def test_files_open_for_reading_alone_and_not_at_all_where_sealed(machine):
    openat = calls.numbered(calls.READ_ONLY, machine)["openat"]
    honest = (os.O_RDONLY, os.O_RDONLY | os.O_CLOEXEC, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | os.O_NOFOLLOW)
    for flags in honest:
        assert verdict(machine, openat, 0, 0, flags) == ALLOW
        assert verdict(machine, openat, 0, 0, flags, reading=False) == REFUSE
    for flag in (os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_TRUNC, os.O_APPEND, os.O_TMPFILE, os.O_PATH):
        for flags in honest:
            assert verdict(machine, openat, 0, 0, flags | flag) == REFUSE


@MACHINES
@given(protection=st.integers(0, 2**32 - 1), high=st.integers(0, 2**32 - 1))
def test_no_memory_becomes_executable(machine, protection, high):
    for number in calls.numbered(calls.NOT_EXECUTABLE, machine).values():
        # The kernel looks at the low half of the argument alone, and so does the filter.
        assert verdict(machine, number, 0, 4096, protection | high << 32) == (REFUSE if protection & 4 else ALLOW)


@MACHINES
def test_another_architecture_or_table_is_an_attack(machine):
    read = calls.numbered(calls.ALLOWED, machine)["read"]
    for architecture in (*ARCHITECTURES.values(), 0x40000003, 0x40000028, 0):
        expected = ALLOW if architecture == ARCHITECTURES[machine] else KILL
        assert verdict(machine, read, architecture=architecture) == expected
    assert verdict(machine, 0x40000000 | read) == (KILL if machine == "x86_64" else REFUSE)


@MACHINES
def test_at_most_65_calls_reach_the_kernel(machine):
    tables = (calls.ALLOWED, calls.READ_ONLY, calls.NOT_EXECUTABLE)
    assert sum(len(calls.numbered(table, machine)) for table in tables) <= 65
