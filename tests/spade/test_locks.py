"""Locks that name their holder, of this host, this kernel or another host, with the system's lock and without."""

import errno
import fcntl
import os
import subprocess
import sys
from contextlib import contextmanager

import msgspec
import pytest

from spade import locks
from spade.errors import RunError
from spade.locks import Holder, describe_this_process, find_holder, hold_folder, hold_lock

NAMED = {
    "a former process": {"pid": 1 << 30},
    "another namespace": {"pids": 4},
    "before this host began again": {"boot": "before", "pids": 4},
    "another host": {"boot": "another", "host": "node-b\n", "pids": 4},
}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "replay.lock"


def name(file, **other):
    stated = msgspec.structs.replace(describe_this_process(), **other)
    file.write_bytes(msgspec.json.encode(stated))
    return stated


def take(file):
    with hold_lock(file, lambda other: f"held by {other}"):
        return find_holder(file)


@contextmanager
def locked_elsewhere(file, how=fcntl.LOCK_EX):
    """The system's lock of another process, of which the file says nothing."""
    code = f"import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, {how:d}); print(flush=True); input()"
    command = [sys.executable, "-c", code, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        yield
        other.kill()


@contextmanager
def open_folder(folder):
    descriptor = os.open(folder, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_a_lock_names_its_holder_while_it_is_held(file):
    assert take(file) == describe_this_process()
    assert file.read_bytes() == b""
    assert find_holder(file) is None
    with pytest.raises(RunError, match=f"^held by pid {describe_this_process().pid}$"), hold_lock(file, str):
        take(file)
    assert take(file) == describe_this_process()


def test_a_lock_on_a_full_disk_names_its_file(file, monkeypatch):
    def be_full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.pwrite", be_full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/replay\.lock'$"):
        take(file)


@pytest.mark.parametrize("case", NAMED)
def test_a_lock_that_nobody_has_is_taken_unless_it_is_of_another_host(file, case):
    stated = name(file, **NAMED[case])
    if case == "another host":
        assert find_holder(file) == stated
        with pytest.raises(RunError, match=r"^held by pid \d+ of node-b\\n$"):
            take(file)
        assert find_holder(file) == stated
    else:
        assert find_holder(file) is None
        assert take(file) == describe_this_process()


def test_a_lock_that_a_process_has_is_refused_with_what_its_file_says(file):
    file.touch()
    with locked_elsewhere(file):
        for case, other in NAMED.items():
            stated = name(file, **other)
            seen = None if case == "a former process" else stated
            assert find_holder(file) == seen
            said = "is locked by a process outside this run" if seen is None else f"^held by pid {stated.pid} of "
            with pytest.raises(RunError, match=said):
                take(file)


def test_who_looks_at_a_lock_of_another_namespace_does_not_hold_it(file):
    name(file, pids=4)
    with locked_elsewhere(file, fcntl.LOCK_SH):  # who looks has it for an instant
        assert find_holder(file) is None


@pytest.mark.parametrize("written", [b"", b"7", b"{}", b"[1, 2]", b"\xff" * 2_000, b'{"pid": "1"}'])
def test_a_damaged_lock_is_nobodys(file, written):
    file.write_bytes(written)
    assert find_holder(file) is None
    assert take(file) == describe_this_process()


def test_a_file_system_without_locks_is_one_line(file, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with pytest.raises(RunError, match=r"replay\.lock: cannot be locked \(No locks available\)"):
        take(file)


def test_near_and_far():
    ours = describe_this_process()
    assert (ours.near, ours.far) == (True, False)
    other = [msgspec.structs.replace(ours, **NAMED[case]) for case in list(NAMED)[1:]]
    assert [(one.near, one.far) for one in other] == [(False, False), (False, False), (False, True)]
    assert str(Holder(7, "a", "b", 4)) == "pid 7 of a"


def test_a_folder_keeps_others_out_of_the_block(tmp_path):
    with hold_folder(tmp_path), open_folder(tmp_path) as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_block_does_not_wait_for_ever_for_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_FOLDER_S", 0.1)
    with open_folder(tmp_path) as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with hold_folder(tmp_path):
            pass
