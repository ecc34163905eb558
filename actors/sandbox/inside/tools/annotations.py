"""Derive the schema of a tool from its method's annotations, and call the method with the arguments of a message.

A method gets the values as JSON has them. If the annotation is an Enum, the method gets the member instead.
"""

import inspect
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Literal

from .schema import JSON_TYPES, SHOWN, Schema, SchemaError

_UNIONS = (typing.Union, types.UnionType)
_NAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
"""The kinds of parameters that a schema can name: all except `*args` and `**kwargs`."""
_GENERAL: Mapping[object, type] = {Sequence: list, Collection: list, Iterable: list, Mapping: dict}
"""General types, and the type that JSON values of them have in Python."""
_WANTED = "str, int, float, bool, list[...], dict, Literal[...], an Enum of texts or numbers, or a union of these"


def derive(method: Callable[..., object]) -> Schema:
    """Return the schema of a bound method's arguments. Arguments without a default are required. Raises SchemaError."""
    try:
        hints = _hints(method)
    except Exception as error:  # evaluating a program's annotations may raise any exception
        raise SchemaError(f"its annotations cannot be read: {error}") from None
    properties: dict[str, Schema] = {}
    required = []
    for name, parameter in _list_parameters(method).items():
        if name not in hints:
            raise SchemaError(f"{name}: needs an annotation")
        properties[name] = _describe_annotation(name, hints[name])
        default = parameter.default.value if isinstance(parameter.default, Enum) else parameter.default
        if default is parameter.empty:
            required.append(name)
        elif type(default) in (str, int, float, bool):
            properties[name]["default"] = default
    return {"type": "object", "properties": properties, "required": required}


def fit(method: Callable[..., object], schema: Schema) -> None:
    """Raise SchemaError if arguments that fit `schema` might not match the method's parameters."""
    named = _list_parameters(method)
    parameters = inspect.signature(method).parameters.values()
    anything = any(each.kind is each.VAR_KEYWORD for each in parameters)
    for name in schema["properties"]:
        if name not in named and not anything:
            raise SchemaError(f"properties.{name}: the method has no parameter of that name")
    for name, each in named.items():
        if each.default is each.empty and name not in schema["required"]:
            raise SchemaError(f"required: the method needs the parameter {name}")


class Caller:
    """Calls a bound method with arguments that fit its schema. Reads the signature once."""

    def __init__(self, method: Callable[..., object]) -> None:
        try:
            hints = _hints(method)
        except Exception:  # only a tool declared in `_tools` may have unreadable annotations
            hints = {}
        self._hints = {name: hint for name, hint in hints.items() if _has_enum(hint)}
        self._placed = [each for each in _list_parameters(method).values() if each.kind is each.POSITIONAL_ONLY]

    def __call__(self, method: Callable[..., object], values: Mapping[str, Any]) -> object:
        """Call the method."""
        named = dict(values)
        for name in self._hints.keys() & named.keys():
            named[name] = _convert_value(self._hints[name], named[name])
        placed = [named.pop(each.name, each.default) for each in self._placed]
        return method(*placed, **named)


def _hints(method: Callable[..., object]) -> dict[str, Any]:
    """Return the annotations of a bound method. Annotations written as text are looked up in the method's module, then
    in its class."""
    try:
        return typing.get_type_hints(method)
    except NameError:
        kind = type(getattr(method, "__self__", None))
        return typing.get_type_hints(method, localns=dict(inspect.getmembers_static(kind)))


def _list_parameters(method: Callable[..., object]) -> dict[str, inspect.Parameter]:
    return {name: each for name, each in inspect.signature(method).parameters.items() if each.kind in _NAMED}


# ---------------------------------------------------------------- one annotation


def _describe_annotation(name: str, annotation: Any) -> Schema:
    """Return the schema of one annotation. Raises SchemaError."""
    annotation = _resolve_annotation(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _UNIONS:
        merged = _merge_schemas([_describe_annotation(name, each) for each in arguments])
        if merged is not None:
            return merged
    values = list(arguments) if origin is Literal else []
    if _is_enum(annotation):
        values = [member.value for member in annotation]
    if values and all(type(value) in JSON_TYPES and not isinstance(value, list | dict) for value in values):
        return {"type": _join_names([JSON_TYPES[type(value)] for value in values]), "enum": values}
    plain = dict if typing.is_typeddict(annotation) else _find_plain_type(origin or annotation)
    kind = JSON_TYPES.get(plain) if isinstance(plain, type) else None
    if kind is not None:
        return {"type": kind} | (
            {"items": _describe_annotation(name, arguments[0])} if kind == "array" and arguments else {}
        )
    shown = inspect.formatannotation(annotation)[:SHOWN]
    raise SchemaError(f"{name}: the annotation must be {_WANTED}, is {shown}")


def _merge_schemas(parts: list[Schema]) -> Schema | None:
    """Return a schema for the union of `parts`, or None if our subset of JSON Schema cannot express the union."""
    nothing = {"type": "null"}
    some = [part for part in parts if part != nothing]
    optional = len(some) < len(parts)
    names = [name for part in some for name in ([part["type"]] if isinstance(part["type"], str) else part["type"])]
    if "number" in names:
        names = [name for name in names if name != "integer"]
    merged: Schema = {"type": _join_names([*names, *(["null"] if optional else [])])}
    listing = [part for part in some if "enum" in part]
    if listing and len(listing) < len(some):
        return None
    if listing:
        merged["enum"] = [*(value for part in listing for value in part["enum"]), *([None] if optional else [])]
    arrays = [part for part in some if part["type"] == "array"]
    if len(arrays) > 1:
        return None
    return merged | ({"items": arrays[0]["items"]} if arrays and "items" in arrays[0] else {})


def _join_names(names: list[str]) -> str | list[str]:
    different = list(dict.fromkeys(names))
    return different[0] if len(different) == 1 else different


def _resolve_annotation(annotation: Any) -> Any:
    """Return the annotation behind a NewType, or behind an alias by the statement `type`."""
    while hasattr(annotation, "__supertype__"):
        annotation = annotation.__supertype__
    return annotation.__value__ if type(annotation).__name__ == "TypeAliasType" else annotation


def _find_plain_type(annotation: Any) -> Any:
    """Return list or dict for a general type such as Sequence or Mapping. Return other annotations unchanged."""
    return _GENERAL.get(annotation, annotation) if isinstance(annotation, type) else annotation


def _is_enum(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Enum)


def _has_enum(annotation: Any) -> bool:
    """Return True if some value of the annotation is a member of an Enum."""
    annotation = _resolve_annotation(annotation)
    return _is_enum(annotation) or any(map(_has_enum, typing.get_args(annotation)))


def _convert_value(annotation: Any, value: Any) -> Any:
    """Replace values by members of Enums as the annotation says."""
    annotation = _resolve_annotation(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if _is_enum(annotation):
        sure = isinstance(value, bool)  # to Python True equals 1, but JSON distinguishes them
        members = (each for each in annotation if each.value == value and isinstance(each.value, bool) is sure)
        return next(members, value)
    if origin in _UNIONS:
        forms = (_convert_value(each, value) for each in arguments)
        return next((form for form in forms if form is not value), value)
    if _find_plain_type(origin) is list and isinstance(value, list):
        return [_convert_value(arguments[0], each) for each in value]
    if _find_plain_type(origin) is dict and isinstance(value, dict):
        return {key: _convert_value(arguments[1], each) for key, each in value.items()}
    return value
