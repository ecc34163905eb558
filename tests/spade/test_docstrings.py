"""Docstrings begin with a verb or a noun, not with a question."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUESTION = re.compile(r"(who|what|whom|whose|whether|how|which)\b", re.IGNORECASE)


def docstrings(path):
    """Line and text of each docstring of a file; a docstring may follow an assignment."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text.strip()


@pytest.mark.parametrize("package", ["actors", "learner", "replay", "spade", "tests"])
def test_no_docstring_opens_with_a_question(package):
    questions = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for line, text in docstrings(path)
        if QUESTION.match(text)
    ]
    assert questions == []
