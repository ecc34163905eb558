"""The rooms of the packages: few arrows between them, few modules in a folder, short modules, no class name twice.

A room is a folder directly below the package or a module beside it; the package's own `__init__` is one as well.
What is not in order yet has its present figure as a ceiling, which falls with it.
"""

import ast
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("actors", "learner", "replay", "spade")
MOST_ARROWS = {
    "actors": 21, "actors/engines": 11, "actors/play": 9, "actors/roles": 6, "replay": 5, "spade/app": 34
}  # fmt: skip
MODULES = 15
LINES = 400
SECTIONS = "spade/config/sections"  # of the config, named like what they configure


def room(package, name):
    """The room that has the module or name `name`, by its full dotted name; None outside of the package."""
    front = package.replace("/", ".")
    if name != front and not name.startswith(f"{front}."):
        return None
    first = name.removeprefix(front).split(".")[1:2]
    folder = ROOT.joinpath(package, *first)
    return first[0] if first and (folder.is_dir() or folder.with_suffix(".py").is_file()) else "__init__"


def imported(path):
    """The full names of all that a file imports, inside of functions as well."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
            module = [*above, *([node.module] if node.module else [])]
            yield from (".".join([*module, alias.name]) for alias in node.names)


def arrows(package):
    """For each room the others that it imports."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        home = room(package, ".".join(path.relative_to(ROOT).with_suffix("").parts))
        others = {room(package, name) for name in imported(path)}
        found.setdefault(home, set()).update(others - {home, None})
    return found


@pytest.mark.parametrize(("package", "most"), MOST_ARROWS.items())
def test_few_arrows_run_between_the_rooms_of_a_package(package, most):
    found = arrows(package)
    assert sum(map(len, found.values())) <= most, found


@pytest.mark.parametrize("package", MOST_ARROWS)
def test_no_arrow_runs_back_up(package):
    TopologicalSorter(arrows(package)).prepare()


def test_no_folder_has_many_modules():
    folders = {path.parent for source in SOURCES for path in (ROOT / source).rglob("*.py")}
    counts = {
        folder.relative_to(ROOT).as_posix(): sum(path.name != "__init__.py" for path in folder.glob("*.py"))
        for folder in folders
    }
    assert {folder: n for folder, n in counts.items() if n > MODULES} == {}


def test_no_module_is_long():
    lengths = {
        path.relative_to(ROOT).as_posix(): len(path.read_bytes().splitlines())
        for source in SOURCES
        for path in (ROOT / source).rglob("*.py")
    }
    assert {name for name, lines in lengths.items() if lines > LINES} == set()


def test_a_class_name_is_defined_once():
    trees = (
        ast.parse(path.read_bytes())
        for source in SOURCES
        for path in (ROOT / source).rglob("*.py")
        if not path.is_relative_to(ROOT / SECTIONS)
    )
    counts = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, count in counts.items() if count > 1} == set()
