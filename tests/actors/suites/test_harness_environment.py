"""The environment of a harness: made whole or not at all, by one command at a time."""

import sys

import pytest

from actors.suites.harnesses import environment
from spade.errors import ConfigError, RunError
from spade.locks import hold_lock


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    return environment.find_folder("bfcl")


def test_a_second_command_leaves_alone_what_the_first_one_makes(place):
    place.mkdir(parents=True)
    (place / "half").touch()
    with (
        hold_lock(place.with_name(f"{place.name}.lock"), str),
        pytest.raises(RunError, match=r"bfcl-[0-9a-f]{16}: another command.* \(pid \d+\); wait for its end"),
    ):
        environment.set_up("bfcl", "", print)
    assert (place / "half").exists()


def test_one_that_cannot_be_made_is_one_line_and_leaves_nothing(place, monkeypatch):
    drafts = place.with_name(f".{place.name}")
    for left in (place, drafts / ".draft-killed"):
        left.mkdir(parents=True)
    monkeypatch.setattr(sys, "_base_executable", "/bin/false")
    with pytest.raises(RunError, match=r"pip or venv ended with 1: ") as told:
        environment.set_up("bfcl", "", print)
    assert "\n" not in str(told.value)
    assert [path.name for path in place.parent.iterdir() if path.is_dir()] == [drafts.name]
    assert list(drafts.iterdir()) == []
    with pytest.raises(ConfigError, match="spade eval setup bfcl"):
        environment.find_python("bfcl")


def test_a_home_that_takes_nothing_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "home").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(RunError, match=r"bfcl-[0-9a-f]{16}: cannot be made \(Not a directory\)"):
        environment.set_up("bfcl", "", print)
