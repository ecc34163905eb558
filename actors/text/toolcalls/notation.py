"""Tools and calls as people read and type them: in Python's syntax, or as JSON. Pure.

A tool is written `find(status: "new" | "open", most: int = …)`, a call `find(status="new")`. A line that begins with a
brace or a bracket is JSON: objects with a name and arguments, one after another or in a list.
"""

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from keyword import iskeyword
from typing import Any, NamedTuple

from actors.text.toolcalls.blocks import DEEPEST, Call, MalformedBlock, call, decode, skip_space
from actors.text.toolcalls.schema import read_properties, read_required

DONE = "done"
DEEPEST_SHOWN, MOST_SHOWN = 4, 8  # in a signature: the deepest nesting of lists, and the most types of an argument
_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "object": "dict", "null": "None"}
_UNREADABLE = (SyntaxError, TypeError, ValueError, MemoryError, RecursionError)


class TypedLine(NamedTuple):
    """The parts of a line that a person typed."""

    calls: tuple[Call, ...]
    """The calls of the line."""

    answer: str
    """"done" if the line ends with `done`, otherwise ""."""


def parse_typed(line: str, arguments: Mapping[str, Sequence[str]]) -> TypedLine:
    """Read a typed line. `arguments` lists each tool's argument names in order, for arguments given by position.

    Raises ValueError, which explains the fault in one line.
    """
    line = line.strip()
    if not line:
        raise ValueError('type a call, such as name(argument="value"), or done')
    if line[0] in "{[":
        return TypedLine(tuple(_read_objects(line)), "")
    try:
        statements = ast.parse(line).body
    except _UNREADABLE:
        raise ValueError('this is not a call; write name(argument="value"), with ";" between calls, or done') from None
    match statements:
        case [*calls, ast.Expr(value=ast.Name(id="done"))]:
            return TypedLine(tuple(_convert_expression(each, arguments) for each in calls), DONE)
    return TypedLine(tuple(_convert_expression(each, arguments) for each in statements), "")


def _read_objects(line: str) -> Iterator[Call]:
    at = 0
    while at < len(line):
        value, end = decode(line, at)
        for entry in value if isinstance(value, list) else [value]:
            if not isinstance(entry, dict):
                raise ValueError('a call as JSON is an object: {"name": …, "arguments": {…}}')
            yield _read(entry.get("name"), entry.get("arguments"))
        at = skip_space(line, end)


def _convert_expression(statement: ast.stmt, arguments: Mapping[str, Sequence[str]]) -> Call:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=placed, keywords=keywords)):
            pass
        case _:
            raise ValueError(f"{_cut_text(ast.unparse(statement))} is not a call of a tool; write name(argument=value)")
    names = arguments.get(name, ())
    if len(placed) > len(names):
        raise ValueError(f"{name} takes {len(names) or 'no'} arguments without a name, {len(placed)} are given")
    values = dict(zip(names, placed, strict=False))
    for keyword in keywords:
        if keyword.arg is None or keyword.arg in values:
            raise ValueError(f"{name}: an argument is given twice, or by **")
        values[keyword.arg] = keyword.value
    return _read(name, {argument: _read_literal(f"{name}: {argument}", value) for argument, value in values.items()})


def _read_literal(what: str, node: ast.expr) -> Any:
    """Return the value of a literal, converted to JSON's types."""
    try:
        return json.loads(json.dumps(ast.literal_eval(node), allow_nan=False))
    except _UNREADABLE:
        raise ValueError(f"{what} must be a literal that JSON has, not {_cut_text(ast.unparse(node))}") from None


def _read(name: object, arguments: object) -> Call:
    read = call(name, arguments)
    if isinstance(read, MalformedBlock):
        raise ValueError(read.why)
    return read


# ---------------------------------------------------------------- notation for reading


def write_call(name: str, arguments: str) -> str:
    """Write a call as a person would type it. `arguments` is a JSON object.

    Writes JSON if a name cannot be written in Python.
    """
    try:
        values = json.loads(arguments)
    except _UNREADABLE:
        values = None
    if not isinstance(values, dict) or not all(map(_is_name, (name, *values))):
        return f'{{"name": {json.dumps(name)}, "arguments": {arguments}}}'
    return f"{name}({', '.join(f'{key}={_format_python(value)}' for key, value in values.items())})"


def _is_name(text: str) -> bool:
    return text.isascii() and text.isidentifier() and not iskeyword(text)


def write_signature(name: str, parameters: Mapping[str, Any]) -> str:
    """Write a tool with its arguments and their types. `parameters` is an untrusted JSON Schema."""
    needed = read_required(parameters)
    shown = [
        f"{key}: {_describe_type(schema)}{'' if key in needed else _format_default(schema)}"
        for key, schema in read_properties(parameters).items()
    ]
    return f"{name}({', '.join(shown)})"


def list_argument_names(parameters: Mapping[str, Any]) -> list[str]:
    """Return the names of a tool's arguments in order, from their schema."""
    return list(read_properties(parameters))


def _format_default(schema: object) -> str:
    return f" = {_format_python(schema['default'])}" if isinstance(schema, dict) and "default" in schema else " = …"


def _describe_type(schema: Any, depth: int = 0) -> str:
    match schema:
        case {"enum": list(values)}:
            return " | ".join(map(_format_python, values))
        case {"type": list(kinds)}:
            names = [kind for kind in kinds if isinstance(kind, str)]
            return " | ".join(_describe_kind(kind, schema, depth) for kind in dict.fromkeys(names[:MOST_SHOWN]))
        case {"type": str(kind)}:
            return _describe_kind(kind, schema, depth)
    return "any"


def _describe_kind(kind: str, schema: dict[str, Any], depth: int) -> str:
    if kind == "array":
        return (
            f"list[{_describe_type(schema['items'], depth + 1)}]"
            if "items" in schema and depth < DEEPEST_SHOWN
            else "list"
        )
    bounds = [f"{sign} {schema[word]}" for word, sign in (("minimum", "≥"), ("maximum", "≤")) if word in schema]
    return " ".join([_TYPES.get(kind, kind), *bounds])


def _format_python(value: object, depth: int = 0) -> str:
    """Write a JSON value in Python's syntax, with its strings in double quotes."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list() | dict() if depth > DEEPEST:
            return "…"
        case list():
            return f"[{', '.join(_format_python(item, depth + 1) for item in value)}]"
        case dict():
            items = (f"{_format_python(key)}: {_format_python(item, depth + 1)}" for key, item in value.items())
            return f"{{{', '.join(items)}}}"
    return repr(value)


def _cut_text(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"
