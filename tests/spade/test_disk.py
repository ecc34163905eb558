"""Files that are deleted while others read them."""

import errno
import os
import shutil
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from spade import disk


@pytest.fixture
def folder(tmp_path):
    """Of weights, with a file in it."""
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "one").write_text("1")
    return tmp_path / "weights"


def test_a_discarded_folder_has_left_its_name_before_its_files_go(tmp_path, folder, monkeypatch):
    seen = []

    def watched(path):
        seen.append((folder.exists(), (path / "one").read_text(), path.name.startswith(disk.DRAFT)))
        shutil.rmtree(path)

    monkeypatch.setattr(disk, "rmtree", watched)
    disk.discard(folder)
    assert seen == [(False, "1", True)]
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_gone_leaves_no_draft(tmp_path):
    disk.discard(tmp_path / "weights")
    assert not list(tmp_path.iterdir())


def test_a_folder_held_by_any_process_is_not_discarded_before_that_ends(tmp_path, folder):
    program = (
        "import pathlib; from spade import disk; held = disk.hold(pathlib.Path('one')); print(flush=True); input()"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with disk.hold(folder / "one"):
            disk.discard_unless_held(folder, "one")
            other.kill()
            other.wait(60)
            disk.discard_unless_held(folder, "one")
            assert (folder / "one").read_text() == "1"
    disk.discard_unless_held(folder, "one")
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError):
        disk.hold(folder / "one")


def test_holding_a_folder_that_is_gone_says_so(folder, monkeypatch):
    """It may be discarded between being found and being held."""
    flock = disk.fcntl.flock

    def late(*args):
        shutil.rmtree(folder)
        flock(*args)

    monkeypatch.setattr(disk.fcntl, "flock", late)
    with pytest.raises(FileNotFoundError):
        disk.hold(folder / "one")


def test_a_folder_without_the_file_is_discarded(tmp_path):
    (tmp_path / "other").mkdir()
    disk.discard_unless_held(tmp_path / "other", "one")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [".", "/", "..", "folder", "none/file"])
def test_a_file_that_cannot_be_written_is_named(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=r"Is a directory|No such file") as refused:
        disk.replace(Path(name), b"1")
    assert refused.value.filename == name
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left") as refused:
        disk.replace(tmp_path / "file", b"1")
    assert refused.value.filename == str(tmp_path / "file")
    assert not list(tmp_path.iterdir())


def test_what_another_put_beside_a_file_is_not_written_to(tmp_path):
    (tmp_path / "victim").write_bytes(b"kept")
    (tmp_path / "file.part").symlink_to("victim")
    disk.replace(tmp_path / "file", b"1")
    assert not (tmp_path / "file").is_symlink()
    assert [(tmp_path / name).read_bytes() for name in ("victim", "file")] == [b"kept", b"1"]


def test_a_durable_file_is_on_the_disk_before_it_has_its_name_and_then_its_name_is(tmp_path, monkeypatch):
    done, flush, rename = [], os.fsync, os.replace

    def note_flush(descriptor):
        flush(descriptor)
        done.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    def note_rename(source, target):
        rename(source, target)
        done.append(str(source))

    monkeypatch.setattr(os, "fsync", note_flush)
    monkeypatch.setattr(os, "replace", note_rename)
    disk.replace(tmp_path / "run.json", b"{}", durable=True)
    part = done[0]
    assert done == [part, part, str(tmp_path)]
    assert part != str(tmp_path / "run.json")


def test_a_file_that_several_write_at_once_is_whole(tmp_path):
    file, texts = tmp_path / "file", [bytes([65 + place]) * 100_000 for place in range(4)]

    def write(text):
        for _ in range(25):
            disk.replace(file, text)
            assert file.read_bytes() in texts

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, texts))
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_file_has_the_rights_that_its_user_gives_to_new_ones(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        disk.replace(tmp_path / "file", b"1")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_a_file_that_cannot_be_read_to_its_end_is_named():
    with pytest.raises(OSError, match="Input/output error") as refused:
        disk.read(Path("/proc/self/mem"))
    assert refused.value.filename == "/proc/self/mem"


@pytest.mark.parametrize("name", ["fifo", "link"])
def test_what_is_no_regular_file_keeps_its_name(tmp_path, name):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    with pytest.raises(OSError, match="not a regular file"):
        disk.replace(tmp_path / name, b"1")
    assert (tmp_path / name).is_fifo()


@pytest.mark.parametrize("reader", [disk.read, disk.read_all, disk.open_regular, disk.hold])
def test_a_reader_refuses_a_fifo_or_a_device_and_does_not_wait(tmp_path, reader):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("fifo", "endless"):
        with pytest.raises(OSError, match="not a regular file") as refused:
            reader(tmp_path / name)
        assert refused.value.filename == str(tmp_path / name)


@pytest.mark.parametrize("make", [os.mkfifo, lambda log: log.symlink_to("outside"), lambda log: log.symlink_to(log)])
def test_an_appender_follows_no_link_and_waits_for_no_reader(tmp_path, make):
    (tmp_path / "outside").write_text("precious")
    make(tmp_path / "log")
    with pytest.raises(OSError, match="not a regular file") as refused:
        disk.open_to_append(tmp_path / "log")
    assert refused.value.filename == str(tmp_path / "log")
    assert (tmp_path / "outside").read_text() == "precious"


def test_an_appender_makes_a_file_and_goes_on_at_its_end(tmp_path):
    for _ in range(2):
        with disk.open_to_append(tmp_path / "log") as file:
            file.write(b"line\n")
            assert file.tell() == (file.flush() or (tmp_path / "log").stat().st_size)
    assert (tmp_path / "log").read_bytes() == b"line\nline\n"


WRITER = """
import os, sys
from pathlib import Path
from spade.disk import write_whole

with write_whole(Path(sys.argv[1])) as part:
    part.mkdir()
    print(flush=True)
    sys.stdin.read()
"""


@contextmanager
def open_writer(folder):
    """Start a process that writes a folder until its input ends."""
    command = [sys.executable, "-c", WRITER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        writer.stdout.readline()
        yield writer


def kill_a_writer(folder):
    with open_writer(folder) as writer:
        writer.kill()


def test_the_draft_of_a_killed_command_goes_with_the_next_one_and_a_held_draft_stays(tmp_path):
    kill_a_writer(tmp_path / "out")
    (tmp_path / ".draft-out-of-mine").mkdir()  # somebody's own folder
    with open_writer(tmp_path / "out"):
        assert len(list(tmp_path.glob(".draft-*"))) == 2
        with disk.write_whole(tmp_path / "other") as one, disk.write_whole(tmp_path / "out") as two:
            assert len(list(tmp_path.glob(".draft-*"))) == 4
            one.mkdir()
            two.mkdir()
    assert sorted(os.listdir(tmp_path)) == [".draft-out-of-mine", "other", "out"]


def test_drafts_on_a_file_system_without_locks_stay(tmp_path, monkeypatch):
    kill_a_writer(tmp_path / "out")

    def fail(*given):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", fail)
    with disk.write_whole(tmp_path / "out") as part:
        part.mkdir()
    assert len(os.listdir(tmp_path)) == 2


def test_the_longest_name_of_a_folder_has_a_draft(tmp_path):
    with disk.write_whole(tmp_path / ("ä" * 127)) as part:
        part.mkdir()
    assert len(os.listdir(tmp_path)) == 1
