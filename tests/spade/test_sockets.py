"""Folders for sockets: short paths, whatever the temporary directory is."""

import socket
import stat

import pytest

from spade.errors import RunError
from spade.processes import sockets
from spade.processes.sockets import LONGEST_PATH, NAME_BYTES, is_short_enough, make_temporary_folder


@pytest.fixture(params=[10, 200])
def temporary(tmp_path, monkeypatch, request):
    """A temporary directory with a short or a long name."""
    folder = tmp_path / ("t" * request.param)
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_a_socket_of_the_longest_name_binds_and_its_folder_is_private_and_deleted(temporary):
    with make_temporary_folder("the learner's ranks") as folder:
        assert is_short_enough(folder)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(f"{folder}/{'x' * (NAME_BYTES - 1)}")
    assert not folder.exists()
    assert len(str(folder)) + NAME_BYTES <= LONGEST_PATH


def test_no_place_is_one_line_with_the_cure(tmp_path, monkeypatch):
    long = tmp_path / ("t" * 200)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    monkeypatch.setattr(sockets, "_ALWAYS_SHORT", (f"{tmp_path}/none",))
    with (
        pytest.raises(RunError, match=r"^the learner's ranks: .*no place for its sockets.*set TMPDIR"),
        make_temporary_folder("the learner's ranks"),
    ):
        pass
