"""Long work shows a bar on a terminal, and only there."""

import io
import sys
import time

import pytest

from spade import progress
from spade.app import cli
from spade.app.commands import progress as bars
from spade.app.printing import say
from spade.app.screen.console import Screen


@pytest.fixture
def drawn(monkeypatch):
    """Display the work of this process on a terminal of 40 columns, at once. The fixture is what the terminal got."""
    file = io.StringIO()
    screen = Screen(file=file, force_terminal=True, width=40, color_system=None, _environ={"TERM": "xterm"})
    monkeypatch.setattr(bars, "open_screen", lambda: screen)
    monkeypatch.setattr(bars, "_DELAY_S", 0.0)
    monkeypatch.setattr(progress, "_display", bars.ProgressBar)
    return file


def test_a_bar_shows_the_share_and_the_time_left(drawn):
    done = []
    with progress.show("judging programs", 4, lambda: len(done)) as bar:
        while len(done) < 3:
            time.sleep(0.01)
            done.append(None)
            bar.refresh()
    lines = drawn.getvalue().replace("\r", "\n").splitlines()
    assert any("judging programs" in line and "0% --:-- left" in line for line in lines)
    assert any("judging programs" in line and "75% 00:01 left" in line for line in lines)


def test_work_of_unknown_length_shows_the_time_it_took(drawn):
    with progress.show("compacting", None, lambda: 0):
        pass
    assert "compacting" in drawn.getvalue()
    assert "0:00:00" in drawn.getvalue()


def test_lines_stand_above_the_bar_and_steer_no_terminal(drawn):
    with progress.show("reading \x1b[31mred", 2, lambda: 1):
        say("a line \x1b[31mred")
    assert "a line \\x1b[31mred\n" in drawn.getvalue()
    assert "\x1b[31m" not in drawn.getvalue()


def test_a_written_folder_is_measured(tmp_path, monkeypatch):
    counts = []

    def display(what, total, count):
        counts.append((what, total, count()))
        return io.StringIO()

    monkeypatch.setattr(progress, "_display", display)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"123")
    (tmp_path / "b").write_bytes(b"45")
    for path in (tmp_path, tmp_path / "b", tmp_path / "none"):
        with progress.show_writing("writing", path, 9):
            pass
    assert counts == [("writing", 9, 5), ("writing", 9, 2), ("writing", 9, 0)]


@pytest.mark.parametrize(
    ("terminal", "words", "shown"), [(True, [], True), (False, [], False), (True, ["--json"], False)]
)
def test_only_a_person_at_a_terminal_sees_bars(monkeypatch, terminal, words, shown):
    seen = []
    monkeypatch.setattr(progress, "_display", None)
    monkeypatch.setattr(cli, "open_streams", lambda: None)
    monkeypatch.setattr(cli.logs, "warn_plainly", lambda: None)
    monkeypatch.setattr(cli, "app", lambda prog_name: seen.append(progress.is_displayed()))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(sys, "argv", ["spade", *words])
    cli._run()
    assert seen == [shown]
    assert list(progress.follow("ab", "letters")) == ["a", "b"]
