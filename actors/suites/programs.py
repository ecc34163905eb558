"""Programs of three lines: a subclass of one of the sandbox's own classes, with literals alone in its body."""

import ast
from typing import Any

from spade.errors import RunError


def program(base: str, name: str = "Item", **attributes: Any) -> str:
    """The program of an item: `class NAME(BASE)` with these attributes, which are JSON values.

    Each is written as a literal, so that nothing of a data file can become code. Raises RunError where that is
    impossible.
    """
    lines = [f"    {key} = {_literal(key, value)}\n" for key, value in attributes.items()]
    return f"class {name}({base}):\n{''.join(lines)}"


def class_name(words: str) -> str:
    """The class of a program that is named by words: `chain_sum` gives `ChainSumEnv`."""
    return "".join(word[:1].upper() + word[1:] for word in words.replace("-", "_").split("_")) + "Env"


def _literal(key: str, value: Any) -> str:
    text = ascii(value)
    try:
        same = ast.literal_eval(text) == value
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        same = False
    if not same:
        raise RunError(f"{key}: cannot be written as a literal")
    return text
