"""The kernel knows which libraries ask one question; their base classes are those of one answer."""

import ast
from pathlib import Path

import pytest

from actors.sandbox.inside import libraries
from spade.config import ONE_ANSWER


def bases() -> dict[str, set[str]]:
    """The names of the bases of each class of the package, whose modules need libraries to be imported."""
    modules = [ast.parse(file.read_text()) for file in Path(libraries.__file__).parent.glob("*.py")]
    classes = [node for module in modules for node in module.body if isinstance(node, ast.ClassDef)]
    return {each.name: {base.id for base in each.bases if isinstance(base, ast.Name)} for each in classes}


def asks_once(name: str, found: dict[str, set[str]]) -> bool:
    return name == "OneAnswerEnv" or any(asks_once(base, found) for base in found.get(name, ()))


@pytest.mark.parametrize("library", libraries.LIBRARIES)
def test_a_library_asks_one_question_if_each_of_its_programs_does(library):
    asked = {asks_once(name, bases()) for name in libraries.LIBRARIES[library].classes}
    assert asked == {library in ONE_ANSWER}
