"""A run directory that does not exist is answered with the runs that may have been meant."""

import os

import pytest

from spade.app.rundir import RunDir, suggest_runs
from spade.config import load
from spade.errors import RunError


@pytest.fixture
def runs(tmp_path, monkeypatch):
    here = tmp_path / "here"  # the folder of pytest above has runs of other tests
    for name in ("nano", "nano-tools", "games-4b"):
        RunDir(here / "runs" / name).create(load("nano"))
    (here / "runs" / "nanoo").mkdir()  # no run
    monkeypatch.chdir(here)
    return here / "runs"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("runs/nono", "did you mean runs/nano? "),
        ("runs/nanotools", "did you mean runs/nano-tools or runs/nano? "),
        ("nano", "did you mean runs/nano or runs/nano-tools? "),
        ("rnus/games4b", "did you mean runs/games-4b? "),
        ("runs/GAMES-4B", "did you mean runs/games-4b? "),
        ("runs", "did you mean runs/games-4b or runs/nano or runs/nano-tools? "),
        ("runs/xyz", ""),
        ("", "did you mean runs/nano"),
        ("\0", ""),
        ("x" * 5000, ""),
    ],
)
def test_close_runs_are_named(runs, typed, told):
    if typed:
        assert suggest_runs(typed) == told
    else:
        assert suggest_runs(typed) == ""


def test_a_run_elsewhere_is_named_by_its_whole_path(runs, tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert suggest_runs(runs / "nono") == f"did you mean {runs / 'nano'}? "


def test_a_folder_that_cannot_be_read_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # `make up` leaves a run in the clone
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "fifo")
    assert suggest_runs(tmp_path / "loop" / "nano") == ""
    assert suggest_runs(tmp_path / "fifo") == ""


def test_the_error_about_a_missing_run_names_them(runs):
    with pytest.raises(RunError) as refused:
        RunDir(runs / "nono").require()
    assert "no run here (no config.toml); did you mean runs/nano? `spade up --run " in str(refused.value)
