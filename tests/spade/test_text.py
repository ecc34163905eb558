"""Text for people."""

import re
import shlex
from pathlib import Path

import pytest

import spade
from spade.text import format_beside, format_clock, quote

SOURCES = Path(spade.__file__).parent.parent
COMMAND = re.compile(r"(?:`|: )(?:spade|chmod|\w+ sync|tensorboard) [^`\"]*\{[^`\"]*")
NAMES = {"name", "word", "words[0]", "hello.role", "policy[:SHORT_DIGEST]", "rules"}
"""Values in printed commands that never need quotes: names, digests and written options."""


def test_a_path_with_a_space_is_one_word_of_a_command():
    assert shlex.split(f"spade up --run {quote(Path('/my runs/nano'))}") == ["spade", "up", "--run", "/my runs/nano"]
    assert quote("runs/nano") == "runs/nano"


def test_messages_quote_each_path_of_a_command():
    files = [file for room in ("spade", "actors", "learner", "replay") for file in (SOURCES / room).rglob("*.py")]
    found = [
        (str(file.relative_to(SOURCES)), value)
        for file in files
        for command in COMMAND.findall(file.read_text(encoding="utf-8"))
        for value in re.findall(r"\{([^{}]+)\}", command)
        if not value.startswith("quote(") and value not in NAMES
    ]
    assert not found


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "00:00"), (192.9, "03:12"), (3599, "59:59"), (3600, "1:00:00"), (360_061, "100:01:01"), (-5, "00:00")],
)
def test_a_time_is_told_with_its_hours_once_it_has_some(seconds, told):
    assert format_clock(seconds) == told


def test_no_time_is_longer_than_a_line():
    assert len(format_clock(1e308)) < 20


@pytest.mark.parametrize("value", [10.000001, 10.0000000001, -10.000001, 10.5, 1e30, float("inf"), float("nan")])
def test_a_figure_over_a_bound_does_not_read_like_the_bound(value):
    assert format_beside(value, 10.0).lstrip("-") != f"{10.0:g}"
    assert len(format_beside(value, 10.0)) <= 20
    assert format_beside(12.0, 10.0) == "12"
