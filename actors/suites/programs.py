"""Short programs: each is a subclass of one of the sandbox's own classes, with only literals in its body."""

import ast
from typing import Any

from spade.errors import RunError


def write_program(base: str, name: str = "Item", **attributes: Any) -> str:
    """Write the program of an item: `class NAME(BASE)` with these attributes, which are JSON values.

    Writes each attribute as a literal, so that text of a data file cannot become code. Raises RunError if that fails.
    """
    lines = [f"    {key} = {_format_literal(key, value)}\n" for key, value in attributes.items()]
    return f"class {name}({base}):\n{''.join(lines)}"


def make_class_name(words: str) -> str:
    """Return the class name for words: `chain_sum` gives `ChainSumEnv`."""
    return "".join(word[:1].upper() + word[1:] for word in words.replace("-", "_").split("_")) + "Env"


def _format_literal(key: str, value: Any) -> str:
    text = ascii(value)
    try:
        same = ast.literal_eval(text) == value
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        same = False
    if not same:
        raise RunError(f"{key}: cannot be written as a literal")
    return text
