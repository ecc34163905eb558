"""The filter of system calls, run by a small interpreter of the kernel's instructions, for both machines."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.sandbox.inside import calls
from actors.sandbox.inside.seccomp import make_program

ALLOW, KILL, REFUSE, ABSENT, ZERO = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050002, 0x00050000
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
MACHINES = pytest.mark.parametrize("machine", list(ARCHITECTURES))


def verdict(machine, number, *arguments, architecture=None):
    """The answer of the kernel: classic BPF over struct seccomp_data."""
    architecture = ARCHITECTURES[machine] if architecture is None else architecture
    data = struct.pack("<iIQ6Q", number, architecture, 0, *(*arguments, *[0] * 6)[:6])
    instructions, at, loaded = make_program(machine), 0, 0
    while True:
        code, if_true, if_false, constant = instructions[at]
        at += 1
        if code == 0x06:
            return constant
        if code == 0x20:
            (loaded,) = struct.unpack_from("<I", data, constant)
        elif code == 0x54:
            loaded &= constant
        else:
            holds = {0x15: loaded == constant, 0x35: loaded >= constant}[code]
            at += if_true if holds else if_false


@MACHINES
def test_every_call_gets_the_verdict_of_its_table(machine):
    tables = ((calls.ALLOWED, ALLOW), (calls.KILLED, KILL), (calls.ABSENT, ABSENT), (calls.NOBODYS, ZERO))
    for table, expected in tables:
        for name, number in calls.number_calls(table, machine).items():
            assert verdict(machine, number) == expected, name
    listed = {**calls.ALLOWED, **calls.KILLED, **calls.ABSENT, **calls.NOBODYS, **calls.HELD}
    numbers = set(calls.number_calls(listed, machine).values())
    assert len(numbers) == len(calls.number_calls(listed, machine)), "two calls of one number"
    for number in set(range(600)) - numbers:
        assert verdict(machine, number) == REFUSE, number


@MACHINES
@given(protection=st.integers(0, 2**32 - 1), high=st.integers(0, 2**32 - 1))
def test_no_memory_becomes_executable(machine, protection, high):
    for name in ("mmap", "mprotect"):
        number = calls.number_calls(calls.HELD, machine)[name]
        # The kernel looks at the low half of the argument alone, and so does the filter.
        assert verdict(machine, number, 0, 4096, protection | high << 32) == (REFUSE if protection & 4 else ALLOW)


@MACHINES
@given(flags=st.integers(0, 2**32 - 1))
def test_no_memory_is_shared_or_of_huge_pages(machine, flags):
    number = calls.number_calls(calls.HELD, machine)["mmap"]
    assert verdict(machine, number, 0, 4096, 3, flags) == (REFUSE if flags & 0x4_0001 else ALLOW)


@MACHINES
@given(pid=st.integers(0, 2**22))
def test_clocks_and_processors_are_ones_own(machine, pid):
    held = calls.number_calls(calls.HELD, machine)
    for name in ("clock_gettime", "clock_getres", "clock_nanosleep"):
        assert [verdict(machine, held[name], clock) for clock in range(12)] == [ALLOW] * 12
        for kind in range(8):
            assert verdict(machine, held[name], (~pid << 3 | kind) % 2**32) == REFUSE
    assert verdict(machine, held["sched_getaffinity"], pid) == (REFUSE if pid else ALLOW)


@MACHINES
def test_no_lock_writes_the_number_of_a_process(machine):
    futex = calls.number_calls(calls.HELD, machine)["futex"]
    for flags in (0, 128, 256, 384):
        allowed = [op for op in range(128) if verdict(machine, futex, 0, op | flags) == ALLOW]
        assert allowed == [0, 1, 3, 4, 5, 9, 10]


@MACHINES
def test_another_architecture_or_table_is_an_attack(machine):
    read = calls.number_calls(calls.ALLOWED, machine)["read"]
    for architecture in (*ARCHITECTURES.values(), 0x40000003, 0x40000028, 0):
        expected = ALLOW if architecture == ARCHITECTURES[machine] else KILL
        assert verdict(machine, read, architecture=architecture) == expected
    assert verdict(machine, 0x40000000 | read) == (KILL if machine == "x86_64" else REFUSE)


@MACHINES
def test_at_most_65_calls_reach_the_kernel(machine):
    tables = (calls.ALLOWED, calls.HELD)
    assert sum(len(calls.number_calls(table, machine)) for table in tables) <= 65
