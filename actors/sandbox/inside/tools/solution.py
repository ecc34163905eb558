"""Read the calls of a reference solution: one text with calls, or a list.

Each entry of a list is a pair (tool, arguments), an object, or a text with calls. An object is one call, such as
`{"tool": "find", "arguments": {}}`. `_NAMES` and `_ARGUMENTS` list the keys that it may use. Without a key of
`_ARGUMENTS`, its first value that is an object counts as the arguments. A text has calls in Python's syntax with
literal arguments, `tool_find(status="new")` or `find(status="new")`.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..program import LISTS, describe_type, escape_surrogates, is_a
from .toolset import PREFIX, Tool
from .values import as_json, make_blamed_error

ENDS = 64
"""Number of closing brackets that are tried as the end of a call."""

Call = tuple[str, str]
"""A call of a tool: its name, and its arguments as JSON."""

_NAMES = ("tool", "name", "function", "tool_name", "action")
_ARGUMENTS = ("arguments", "args", "parameters", "kwargs")
"""The keys that an object may use for the name and the arguments of a call. The documented key comes first."""

_UNREADABLE = (SyntaxError, TypeError, ValueError, MemoryError, RecursionError)


def read_calls(said: object, tools: Mapping[str, Tool]) -> list[Call]:
    """Return the calls of a solution in their order. Raises ProgramError if the solution has another form."""
    if not is_a(said, (str, *LISTS)):
        raise make_blamed_error(f"solution must return a list of calls or a text, not {describe_type(said)}")
    found: list[Call] = []
    for place, entry in enumerate([said] if is_a(said, str) else said, 1):  # type: ignore[arg-type, var-annotated]
        if is_a(entry, str):
            found += _read_spoken(entry, tools)
        elif is_a(entry, (list, tuple)) and len(entry) == 2 and is_a(entry[0], str):
            found.append(_call(place, entry[0], entry[1], tools))
        elif is_a(entry, dict):
            found.append(_call(place, *_read_object(place, entry), tools))
        else:
            wanted = '(tool, arguments), {"tool": …, "arguments": …} or a text'
            raise make_blamed_error(f"entry {place} of solution must be {wanted}, not {describe_type(entry)}")
    return found


def _call(place: int, name: str, arguments: object, tools: Mapping[str, Tool]) -> Call:
    said = arguments if is_a(arguments, str) else as_json(f"entry {place} of solution", arguments)
    return _find_tool_name(name, tools), escape_surrogates(said)  # type: ignore[arg-type]


def _read_object(place: int, entry: Any) -> tuple[str, object]:
    """Return the name and the arguments of a call that is an object. In OpenAI's form both are inside `function`."""
    inner = entry["function"] if is_a(entry.get("function"), dict) else entry
    name = next((inner[key] for key in _NAMES if is_a(inner.get(key), str)), None)
    if name is None:
        raise make_blamed_error(f"entry {place} of solution names no tool; its key must be one of {', '.join(_NAMES)}")
    said = [*(inner[key] for key in _ARGUMENTS if inner.get(key) is not None)]
    return name, next(iter(said or [each for each in inner.values() if is_a(each, dict)]), {})


def _find_tool_name(name: str, tools: Mapping[str, Tool]) -> str:
    """Return the name of a tool that a solution calls. The solution may use the method's name, `tool_<name>`."""
    short = name.removeprefix(PREFIX)
    return short if name not in tools and short in tools else escape_surrogates(name)


def _read_spoken(text: str, tools: Mapping[str, Tool]) -> Iterator[Call]:
    called = re.compile(rf"(?<!\w)(?:{PREFIX})?(?:{'|'.join(map(re.escape, tools))})\(")
    match = called.search(text)
    while match is not None:
        end, call = _parse_expression(text, match.start(), match.end())
        if call is not None:
            name = _find_tool_name(match[0][:-1], tools)
            arguments = _read_arguments(call, list(tools[name].parameters["properties"]))
            if arguments is not None:
                yield name, arguments
        match = called.search(text, end)


def _parse_expression(text: str, start: int, opened: int) -> tuple[int, ast.Call | None]:
    """Parse the call that begins at `start`. `opened` is the offset after its opening bracket.

    Returns the offset after the call, and the call. If it cannot be read, returns `opened` and None.
    """
    end = opened
    for _ in range(ENDS):
        end = text.find(")", end) + 1
        if end == 0:
            break
        try:
            call = ast.parse(text[start:end], mode="eval").body
        except _UNREADABLE:
            continue
        return end, call if isinstance(call, ast.Call) else None
    return opened, None


def _read_arguments(call: ast.Call, names: list[str]) -> str | None:
    """Return a call's arguments as JSON. `names` are the tool's parameters, in the order of positional arguments.

    Returns None if an argument is not a JSON literal.
    """
    if len(call.args) > len(names) or any(each.arg is None for each in call.keywords):
        return None
    try:
        placed = dict(zip(names, map(ast.literal_eval, call.args), strict=False))
        named = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
        return escape_surrogates(json.dumps(placed | named, ensure_ascii=False, allow_nan=False))
    except _UNREADABLE:
        return None
