"""Files that are deleted while others read them."""

import shutil
import subprocess
import sys

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
