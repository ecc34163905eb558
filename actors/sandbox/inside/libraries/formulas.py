"""Let sympy's parser evaluate nothing but formulas.

The parser turns a text into Python and evaluates it. If a library's scorer passes a player's answer to the parser, the
answer could run code in the judging process, or call the function that solves the question.
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
"""The allowed functions that are not classes of sympy."""

_NODES = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Call, ast.Name, ast.Load, ast.Constant)
_WORD = re.compile(r"\w*|[\d.eE+-]*")  # a name, or a number with a point
_SHOWN = 60  # characters of a text that an error quotes

_python = sympy_parser.stringify_expr


def hold() -> None:
    """Make sympy's parser raise ValueError from now on for any text that is not a formula."""
    sympy_parser.stringify_expr = _convert_formula


def _convert_formula(
    text: str, names: dict[str, Any], known: dict[str, Any], rewrites: tuple[Callable[..., Any], ...]
) -> str:
    """Return the Python that the parser evaluates for a text. Raises ValueError if it is not a formula."""
    code = str(_python(text, names, known, rewrites))
    if all(_is_allowed(node, ChainMap(names, known)) for node in ast.walk(ast.parse(code.strip(), mode="eval"))):
        return code
    raise ValueError(f"{text[:_SHOWN]!r} is not a formula")


def _is_allowed(node: ast.AST, names: Mapping[str, Any]) -> bool:
    match node:
        case ast.Name(name):
            return _is_mathematical(names.get(name))
        case ast.Constant(str(word)):  # the parser's form of names and of numbers with a point
            return _WORD.fullmatch(word) is not None
    return isinstance(node, _NODES)


def _is_mathematical(named: object) -> bool:
    """Return True for a number, a symbol, or a function that sympy knows. The base class `Function` is
    not allowed, because it makes functions of any name.
    """
    if isinstance(named, type):
        return issubclass(named, (Application, sympy.Number, sympy.Symbol)) and named is not sympy.Function
    return isinstance(named, sympy.Expr) or any(named is each for each in FUNCTIONS)
