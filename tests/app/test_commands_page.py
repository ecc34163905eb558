"""docs/commands.md lists every command of the command line, and no other."""

import re
from pathlib import Path

import typer

from spade.app.cli import app

PAGE = (Path(__file__).parents[2] / "docs/commands.md").read_text()


def commands(command, name="spade"):
    """The full names of the commands below one."""
    if not hasattr(command, "commands"):
        return {name}
    return {full for word, below in command.commands.items() for full in commands(below, f"{name} {word}")}


def test_the_page_lists_each_command_and_no_other():
    known = commands(typer.main.get_command(app))
    listed = {f"spade {words}" for words in re.findall(r"`spade ([a-z]+(?: [a-z]+)?)", PAGE)}
    groups = {name.rpartition(" ")[0] for name in known if name.count(" ") == 2}
    assert known <= listed
    assert {name for name in listed - known if name not in groups} == set()
