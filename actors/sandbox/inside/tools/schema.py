"""Check schemas of tools against our subset of JSON Schema, and arguments against a schema. Pure.

The subset is `type` (one or a list), `properties`, `required`, `enum`, `items`, `minimum` and `maximum`. NOTES are
shown to the player and not checked. Any other keyword is refused, since a rule that nobody enforces would mislead.
"""

import json
from collections.abc import Mapping
from typing import Any, NoReturn

Schema = dict[str, Any]

NOTES = ("description", "title", "default", "examples", "format")
DEPTH = 32
"""The deepest nesting of arguments, so that a tool's own code does not recurse too far over a value."""
SHOWN = 60
"""Characters of a refused value that the error message quotes."""
LISTED = 400
"""A list of allowed values in an error message is cut to this many characters."""

JSON_TYPES: Mapping[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
    type(None): "null",
}
TYPES = tuple(JSON_TYPES.values())


class SchemaError(ValueError):
    """A schema is outside the subset, or a method lacks a schema. The text is one line with the path."""


class ArgumentsError(ValueError):
    """Arguments do not fit their schema. The text is one line with the path."""


def _list_names(names: Any) -> list[Any]:
    return names if isinstance(names, list) else [names]


# ---------------------------------------------------------------- a schema


def check_parameters(schema: object) -> Schema:
    """Check the schema of all arguments of a tool. Return it with `properties` and `required`. Raises SchemaError."""
    if not isinstance(schema, dict):
        _fail("parameters", f"must be an object, is {format_value(schema)}")
    check_schema(schema, "parameters")
    if schema.get("type", "object") != "object":
        _fail("parameters.type", f'must be "object", is {format_value(schema["type"])}')
    whole = {"type": "object", "properties": {}, "required": []} | schema
    for name in whole["required"]:
        if name not in whole["properties"]:
            _fail("parameters.required", f"{format_value(name)} is not among the properties")
    return whole


def check_schema(schema: object, path: str) -> None:
    """Raise SchemaError if `schema`, a decoded JSON value, is not in the subset."""
    if not isinstance(schema, dict):
        _fail(path, f"must be an object, is {format_value(schema)}")
    for keyword, value in schema.items():
        here = f"{path}.{keyword}"
        match keyword:
            case "type":
                names = _list_names(value)
                if not names or len(set(map(json.dumps, names))) < len(names):
                    _fail(here, "must be a type or a list of different types")
                for name in names:
                    if not isinstance(name, str) or name not in TYPES:
                        _fail(here, f"{format_value(name)} is not one of {', '.join(TYPES)}")
            case "properties":
                if not isinstance(value, dict):
                    _fail(here, f"must be an object, is {format_value(value)}")
                for name, inner in value.items():
                    check_schema(inner, f"{here}.{name}")
            case "items":
                check_schema(value, here)
            case "required":
                if not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
                    _fail(here, f"must be a list of names, is {format_value(value)}")
            case "enum":
                if not isinstance(value, list) or not value:
                    _fail(here, f"must be a list of values, is {format_value(value)}")
            case "minimum" | "maximum":
                if not _is_number(value):
                    _fail(here, f"must be a number, is {format_value(value)}")
            case "description" | "title" | "format":
                if not isinstance(value, str):
                    _fail(here, f"must be a string, is {format_value(value)}")
            case _ if keyword not in NOTES:
                _fail(here, "this keyword is not supported")


def _fail(path: str, reason: str) -> NoReturn:
    raise SchemaError(f"{path}: {reason}")


# ---------------------------------------------------------------- arguments


def read_arguments(text: str) -> dict[str, Any]:
    """Parse a call's arguments. A number without a fraction becomes an int, as `range` needs. Raises ArgumentsError."""
    try:
        value = _decoder.decode(text)
    except RecursionError:
        raise ArgumentsError("the arguments are nested too deeply") from None
    except ValueError as error:
        raise ArgumentsError(f"the arguments are not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ArgumentsError(f"the arguments must be an object, are {format_value(value)}")
    if _is_deeper(value, DEPTH):
        raise ArgumentsError("the arguments are nested too deeply")
    if "\\u" in text and not _is_encodable(value):
        raise ArgumentsError("the arguments have a lone surrogate")
    return value


def _is_encodable(value: dict[str, Any]) -> bool:
    """Return True if no text has a lone surrogate. A tool that encodes such a text would fail."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _parse_number(text: str) -> float | int:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        _refuse_number(text)
    return int(value) if value.is_integer() else value


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:SHOWN]} is not a number here")


def _is_deeper(value: dict[str, Any] | list[Any], most: int) -> bool:
    if most < 0:
        return True
    for each in value.values() if isinstance(value, dict) else value:
        if type(each) in (dict, list) and _is_deeper(each, most - 1):
            return True
    return False


_decoder = json.JSONDecoder(parse_float=_parse_number, parse_constant=_refuse_number)


def check_arguments(arguments: dict[str, Any], schema: Schema) -> None:
    """Raise ArgumentsError if `arguments` from `read_arguments` do not fit a schema from `check_parameters`.

    The check converts no value.
    """
    for name in arguments:
        if name not in schema["properties"]:
            known = ", ".join(schema["properties"]) or "none"
            raise ArgumentsError(
                f"{format_value(name)}: there is no such argument; there are: {cut_text(known, LISTED)}"
            )
    _check(arguments, schema, "")


def _check(value: Any, schema: Schema, path: str) -> None:
    kind = JSON_TYPES[type(value)]
    number = kind in ("integer", "number")
    wanted = schema.get("type", kind)
    if wanted != kind and not _is_of_type(kind, _list_names(wanted)):
        raise ArgumentsError(f"{path}: must be of type {' or '.join(_list_names(wanted))}, is {format_value(value)}")
    if "enum" in schema and not _is_among(value, kind, schema["enum"]):
        allowed = ", ".join(json.dumps(each, ensure_ascii=False) for each in schema["enum"])
        raise ArgumentsError(f"{path}: must be one of {cut_text(allowed, LISTED)}; is {format_value(value)}")
    if number:
        if "minimum" in schema and value < schema["minimum"]:
            raise ArgumentsError(f"{path}: must be at least {schema['minimum']}, is {format_value(value)}")
        if "maximum" in schema and value > schema["maximum"]:
            raise ArgumentsError(f"{path}: must be at most {schema['maximum']}, is {format_value(value)}")
    elif kind == "object":
        for name in schema.get("required", ()):
            if name not in value:
                raise ArgumentsError(f"{_extend_path(path, name)}: is missing")
        for name, inner in schema.get("properties", {}).items():
            if name in value:
                _check(value[name], inner, _extend_path(path, name))
    elif kind == "array" and "items" in schema:
        for index, each in enumerate(value):
            _check(each, schema["items"], f"{path}[{index}]")


def _is_of_type(kind: str, names: list[str]) -> bool:
    """Return True if a value of this JSON type is of one of the named types."""
    return kind in names or (kind == "integer" and "number" in names)


def _is_among(value: Any, kind: str, allowed: list[Any]) -> bool:
    return value in allowed if kind == "string" else any(_is_same(value, each) for each in allowed)


def _extend_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _is_same(one: Any, two: Any) -> bool:
    """Return True if two values are equal in JSON: 1 equals 1.0, but not true."""
    if isinstance(one, bool) or isinstance(two, bool):
        return one is two
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_is_same, one, two))
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(_is_same(one[key], two[key]) for key in one)
    return bool(one == two)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def format_value(value: object) -> str:
    """Format a JSON value for a message of one line, and cut it."""
    return cut_text(json.dumps(value, ensure_ascii=False), SHOWN)


def cut_text(text: str, most: int) -> str:
    """Cut a text to at most `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"
