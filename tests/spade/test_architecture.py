"""docs/architecture.md, compared with the tree: each name in back quotes exists, and each room has its line.

A line of the page that names files names what stands in these files. Other lines may name anything of the tree.
"""

import ast
import keyword
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
import typer

from spade.app.cli import app
from spade.config import Config

ROOT = Path(__file__).parents[2]
PACKAGES = ("spade", "replay", "actors", "learner")
LINES = (ROOT / "docs/architecture.md").read_text().splitlines()
NAMED = [(number, name) for number, line in enumerate(LINES, 1) for name in re.findall(r"`([^`]+)`", line)]
ROOMS = sorted(
    folder.relative_to(ROOT).as_posix()
    for package in PACKAGES
    for folder in (ROOT / package).iterdir()
    if any(file.is_file() and "__pycache__" not in file.parts for file in folder.rglob("*"))
)


def places(text):
    """The files and folders of the tree that a text means: a path, with or without `.py`, or a pattern."""
    return [*ROOT.glob(text.rstrip("/")), *ROOT.glob(f"{text}.py")]


@cache
def files_of(number):
    """The files that a line of the page names; all of the packages if it names none."""
    named = [place for at, name in NAMED if at == number for place in places(name)] if number else []
    named = named or [ROOT / package for package in PACKAGES]
    files = {file for place in named for file in (place.rglob("*") if place.is_dir() else [place])}
    return sorted(file for file in files if file.is_file() and "__pycache__" not in file.parts)


@cache
def words_of(file):
    """Return the names that a Python file defines, imports or has as a string; of another file, each word."""
    if file.suffix != ".py":
        return set(re.findall(r"[\w.-]+", file.read_text(errors="replace")))
    found = {file.stem}
    for node in ast.walk(ast.parse(file.read_bytes())):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.alias(name=name, asname=asname):
                found.add(asname or name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Constant(value=str(name)):
                found.add(name)
    return found


def is_setting(name):
    section, _, field = name.partition(".")
    return section in Config.__struct_fields__ and field in Config.__annotations__[section].__struct_fields__


def is_command(name):
    command = typer.main.get_command(app)
    for word in name.split()[1:]:
        command = getattr(command, "commands", {}).get(word)
    return command is not None


def is_file_beside(name, files):
    """True for a file's name in a folder of one of these files."""
    return any((file.parent / name).is_file() for file in files)


def exists(number, name):
    files = files_of(number)
    if "/" in name or "*" in name:
        return bool(places(name) or places(f"configs/{name}.toml"))
    if name.startswith("spade "):
        return is_command(name)
    if name.startswith("make "):
        return re.search(rf"^{name.removeprefix('make ')}:", (ROOT / "Makefile").read_text(), re.MULTILINE) is not None
    known = set().union(*map(words_of, files))
    return (
        keyword.iskeyword(name)
        or keyword.issoftkeyword(name)
        or is_setting(name)
        or name in known
        or ("." in name and set(name.split(".")) <= known)
        or is_file_beside(name, [*files, ROOT / "pyproject.toml"])
        or name in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    )


@pytest.mark.parametrize(("number", "name"), NAMED)
def test_a_name_of_the_page_exists(number, name):
    assert exists(number, name), f"docs/architecture.md:{number}: there is no {name}"


@pytest.mark.parametrize("name", ["learner/no_loss.py", "no_such_function", "play.no_setting", "spade no", "make no"])
def test_a_name_that_does_not_exist_is_found(name):
    assert not exists(0, name)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_has_its_line(room):
    assert any(re.match(rf"\| `{room}/?` \| ", line) for line in LINES)
