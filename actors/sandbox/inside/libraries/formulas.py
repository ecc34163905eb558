"""Formulas that a player wrote: all that sympy's parser evaluates here.

The parser turns a text into Python and evaluates it. Where a library's scorer gives it an answer, that answer could run
code in the process that judges it, or name the function that solves its question.
"""

import ast
import re
from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any

import sympy
from sympy.core.function import Application
from sympy.parsing import sympy_parser

FUNCTIONS = (abs, pow, sympy.sqrt, sympy.cbrt, sympy.root)
"""Those that are no classes of sympy."""

_NODES = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Call, ast.Name, ast.Load, ast.Constant)
_WORD = re.compile(r"\w*|[\d.eE+-]*")  # a name, or a number with a point
_SHOWN = 60  # characters

_python = sympy_parser.stringify_expr


def hold() -> None:
    """From now on sympy's parser raises ValueError for whatever is no formula."""
    sympy_parser.stringify_expr = _formula


def _formula(text: str, names: dict[str, Any], known: dict[str, Any], rewrites: tuple[Callable[..., Any], ...]) -> str:
    """The Python of a text, as the parser evaluates it next."""
    code = str(_python(text, names, known, rewrites))
    if all(_allowed(node, ChainMap(names, known)) for node in ast.walk(ast.parse(code.strip(), mode="eval"))):
        return code
    raise ValueError(f"{text[:_SHOWN]!r} is no formula")


def _allowed(node: ast.AST, names: Mapping[str, Any]) -> bool:
    match node:
        case ast.Name(name):
            return _mathematical(names.get(name))
        case ast.Constant(str(word)):  # the parser writes names and numbers with a point so
            return _WORD.fullmatch(word) is not None
    return isinstance(node, _NODES)


def _mathematical(named: object) -> bool:
    """A number, a symbol, or a function that sympy knows: `Function` makes one of any name."""
    if isinstance(named, type):
        return issubclass(named, (Application, sympy.Number, sympy.Symbol)) and named is not sympy.Function
    return isinstance(named, sympy.Expr) or any(named is each for each in FUNCTIONS)
