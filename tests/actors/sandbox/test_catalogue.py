"""The list of a library's environments comes from another process, where packages of others are imported."""

import pytest

from actors.sandbox import catalogue
from spade.errors import RunError


@pytest.fixture(autouse=True)
def any_library(monkeypatch):
    monkeypatch.setattr(catalogue, "require", lambda names: None)


def test_the_folder_of_the_command_gives_no_module(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("open('was-run', 'w').close()")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError, match="does not load"):
        catalogue.list_catalogue("answers")
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("raise SystemExit(0)", "does not load .it does not list its environments."),
        ("print('noise')", "does not load .it does not list its environments."),
        ("print('[1]')", "does not load .it does not list its environments."),
        ("raise ValueError('a\\nb')", "does not load "),
        (
            r"raise LookupError('\n***\n  No words.\n\n  Searched here\n***\n')",
            "does not load .LookupError: No words. Searched here.",
        ),
        ("import time; time.sleep(60)", "does not load within 2 s"),
    ],
)
def test_a_library_that_lists_nothing_is_one_line(program, says, monkeypatch):
    monkeypatch.setattr(catalogue, "_LIST", program)
    monkeypatch.setattr(catalogue, "LISTED_S", 2.0)
    with pytest.raises(RunError, match=says) as refused:
        catalogue.list_catalogue("gymnasium")
    assert "\n" not in str(refused.value)
