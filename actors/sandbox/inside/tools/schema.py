"""Schemas of tools: derived from a method, checked against our subset of JSON Schema, and arguments checked by them.

The subset: `type` (one or a list), `properties`, `required`, `enum`, `items`, `minimum`, `maximum`. NOTES are shown to
the player and not checked; any other keyword is refused, since a rule that nobody enforces would mislead. Pure.
"""

import inspect
import json
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, NoReturn

Schema = dict[str, Any]

NOTES = ("description", "title", "default", "examples", "format")
DEPTH = 32
"""The deepest nesting of arguments, so that no tool meets a value over which its own code recurses too far."""
SHOWN = 60
"""Characters of a refused value that its complaint quotes."""
LISTED = 400
"""Characters of the list of what is allowed."""

_OF_CLASS: Mapping[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
    type(None): "null",
}
_TYPES = tuple(_OF_CLASS.values())


class SchemaError(ValueError):
    """A schema outside of the subset, or a method that has none: one line, with the path."""


class ArgumentsError(ValueError):
    """Arguments that do not fit: one line, with the path."""


# ---------------------------------------------------------------- from a method


def derive(method: Callable[..., object]) -> Schema:
    """The schema of a bound method's arguments; those without a default are required. Raises SchemaError."""
    try:
        hints = typing.get_type_hints(method)
    except Exception as error:  # of the program's own text
        raise SchemaError(f"its annotations cannot be read: {error}") from None
    properties: dict[str, Schema] = {}
    required = []
    for name, parameter in inspect.signature(method).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise SchemaError(f"{name}: an argument must have a name that a call can use")
        if name not in hints:
            raise SchemaError(f"{name}: needs an annotation")
        properties[name] = _annotated(name, hints[name])
        if parameter.default is parameter.empty:
            required.append(name)
        elif type(parameter.default) in (str, int, float, bool):
            properties[name]["default"] = parameter.default
    return {"type": "object", "properties": properties, "required": required}


def _annotated(name: str, annotation: Any) -> Schema:
    """The schema of one annotation."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    kind = _OF_CLASS.get(origin or annotation) if isinstance(origin or annotation, type) else None
    if kind is not None:
        inner = {"items": _annotated(name, arguments[0])} if kind == "array" and arguments else {}
        return {"type": kind, **inner}
    if origin is Literal:
        names = {_OF_CLASS.get(type(value)): None for value in arguments}
        if None not in names:
            return {"type": _one_or_all(list(names)), "enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        others = [each for each in arguments if each is not type(None)]
        if len(others) == 1:
            schema = _annotated(name, others[0])
            schema["type"] = _one_or_all([*_listed(schema["type"]), "null"])
            return schema | ({"enum": [*schema["enum"], None]} if "enum" in schema else {})
    wanted = "str, int, float, bool, list[...], dict, Literal[...] or one of these | None"
    raise SchemaError(f"{name}: the annotation must be {wanted}, is {inspect.formatannotation(annotation)[:SHOWN]}")


def _one_or_all(names: list[Any]) -> Any:
    return names[0] if len(names) == 1 else names


def _listed(names: Any) -> list[Any]:
    return names if isinstance(names, list) else [names]


def fit(method: Callable[..., object], schema: Schema) -> None:
    """Raise SchemaError where a call that keeps `schema` could miss the method's parameters."""
    parameters = inspect.signature(method).parameters.values()
    named = {each.name: each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
    anything = any(each.kind is each.VAR_KEYWORD for each in parameters)
    for name in schema["properties"]:
        if name not in named and not anything:
            raise SchemaError(f"properties.{name}: the method has no parameter of that name")
    for name, each in named.items():
        if each.default is each.empty and name not in schema["required"]:
            raise SchemaError(f"required: the method needs the parameter {name}")


# ---------------------------------------------------------------- a schema


def check_parameters(schema: object) -> Schema:
    """The schema of all arguments of a tool, with `properties` and `required`. Raises SchemaError."""
    if not isinstance(schema, dict):
        _fail("parameters", f"must be an object, is {shown(schema)}")
    check_schema(schema, "parameters")
    if schema.get("type", "object") != "object":
        _fail("parameters.type", f'must be "object", is {shown(schema["type"])}')
    whole = {"type": "object", "properties": {}, "required": []} | schema
    for name in whole["required"]:
        if name not in whole["properties"]:
            _fail("parameters.required", f"{shown(name)} is not among the properties")
    return whole


def check_schema(schema: object, path: str) -> None:
    """Raise SchemaError where `schema`, as JSON has it, is not of the subset."""
    if not isinstance(schema, dict):
        _fail(path, f"must be an object, is {shown(schema)}")
    for keyword, value in schema.items():
        here = f"{path}.{keyword}"
        match keyword:
            case "type":
                names = _listed(value)
                if not names or len(set(map(json.dumps, names))) < len(names):
                    _fail(here, "must be a type or a list of different types")
                for name in names:
                    if not isinstance(name, str) or name not in _TYPES:
                        _fail(here, f"{shown(name)} is not one of {', '.join(_TYPES)}")
            case "properties":
                if not isinstance(value, dict):
                    _fail(here, f"must be an object, is {shown(value)}")
                for name, inner in value.items():
                    check_schema(inner, f"{here}.{name}")
            case "items":
                check_schema(value, here)
            case "required":
                if not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
                    _fail(here, f"must be a list of names, is {shown(value)}")
            case "enum":
                if not isinstance(value, list) or not value:
                    _fail(here, f"must be a list of values, is {shown(value)}")
            case "minimum" | "maximum":
                if not _is_number(value):
                    _fail(here, f"must be a number, is {shown(value)}")
            case "description" | "title" | "format":
                if not isinstance(value, str):
                    _fail(here, f"must be a string, is {shown(value)}")
            case _ if keyword not in NOTES:
                _fail(here, "this keyword is not supported")


def _fail(path: str, reason: str) -> NoReturn:
    raise SchemaError(f"{path}: {reason}")


# ---------------------------------------------------------------- arguments


def read_arguments(text: str) -> dict[str, Any]:
    """A call's arguments. A number without a fraction is an int, as `range` wants it. Raises ArgumentsError."""
    try:
        value = _decoder.decode(text)
    except RecursionError:
        raise ArgumentsError("the arguments are nested too deeply") from None
    except ValueError as error:
        raise ArgumentsError(f"the arguments are not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ArgumentsError(f"the arguments must be an object, are {shown(value)}")
    if _deeper(value, DEPTH):
        raise ArgumentsError("the arguments are nested too deeply")
    if "\\u" in text and not _encodable(value):
        raise ArgumentsError("the arguments have a lone surrogate")
    return value


def _encodable(value: dict[str, Any]) -> bool:
    """True without lone surrogates, on which a tool that encodes its text would fail."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _number(text: str) -> float | int:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        _no_number(text)
    return int(value) if value.is_integer() else value


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:SHOWN]} is not a number here")


def _deeper(value: dict[str, Any] | list[Any], most: int) -> bool:
    if most < 0:
        return True
    for each in value.values() if isinstance(value, dict) else value:
        if type(each) in (dict, list) and _deeper(each, most - 1):
            return True
    return False


_decoder = json.JSONDecoder(parse_float=_number, parse_constant=_no_number)


def check_arguments(arguments: dict[str, Any], schema: Schema) -> None:
    """Raise ArgumentsError where `arguments`, as `read_arguments` has them, do not fit a schema of `check_parameters`.

    Nothing is converted.
    """
    for name in arguments:
        if name not in schema["properties"]:
            known = ", ".join(schema["properties"]) or "none"
            raise ArgumentsError(f"{shown(name)}: there is no such argument; there are: {cut(known, LISTED)}")
    _check(arguments, schema, "")


def _check(value: Any, schema: Schema, path: str) -> None:
    kind = _OF_CLASS[type(value)]
    number = kind in ("integer", "number")
    wanted = schema.get("type", kind)
    if wanted != kind and not _of_type(kind, _listed(wanted)):
        raise ArgumentsError(f"{path}: must be of type {' or '.join(_listed(wanted))}, is {shown(value)}")
    if "enum" in schema and not _among(value, kind, schema["enum"]):
        allowed = ", ".join(json.dumps(each, ensure_ascii=False) for each in schema["enum"])
        raise ArgumentsError(f"{path}: must be one of {cut(allowed, LISTED)}; is {shown(value)}")
    if number:
        if "minimum" in schema and value < schema["minimum"]:
            raise ArgumentsError(f"{path}: must be at least {schema['minimum']}, is {shown(value)}")
        if "maximum" in schema and value > schema["maximum"]:
            raise ArgumentsError(f"{path}: must be at most {schema['maximum']}, is {shown(value)}")
    elif kind == "object":
        for name in schema.get("required", ()):
            if name not in value:
                raise ArgumentsError(f"{_below(path, name)}: is missing")
        for name, inner in schema.get("properties", {}).items():
            if name in value:
                _check(value[name], inner, _below(path, name))
    elif kind == "array" and "items" in schema:
        for index, each in enumerate(value):
            _check(each, schema["items"], f"{path}[{index}]")


def _of_type(kind: str, names: list[str]) -> bool:
    """True where a value, as JSON has it of this kind, is of one of the types."""
    return kind in names or (kind == "integer" and "number" in names)


def _among(value: Any, kind: str, allowed: list[Any]) -> bool:
    return value in allowed if kind == "string" else any(_same(value, each) for each in allowed)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _same(one: Any, two: Any) -> bool:
    """Equality of JSON: 1 is 1.0 and not true."""
    if isinstance(one, bool) or isinstance(two, bool):
        return one is two
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_same, one, two))
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(_same(one[key], two[key]) for key in one)
    return bool(one == two)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(value: object) -> str:
    """A value of JSON, cut, for a message of one line."""
    return cut(json.dumps(value, ensure_ascii=False), SHOWN)


def cut(text: str, most: int) -> str:
    """The text, in at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"
