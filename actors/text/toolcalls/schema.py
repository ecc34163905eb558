"""Reads an untrusted JSON Schema. Malformed parts are ignored. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any


def read_properties(schema: object) -> Mapping[str, Any]:
    """Return the schemas of an object's values, by name."""
    found = _get_entry(schema, "properties")
    return found if isinstance(found, dict) else {}


def read_required(schema: object) -> Sequence[str]:
    """Return the names that an object must have."""
    return [name for name in _read_list(schema, "required") if isinstance(name, str)]


def read_types(schema: object) -> Sequence[str]:
    """Return the types that a schema allows, or an empty sequence if it names none."""
    found = _get_entry(schema, "type")
    return [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, str)]


def read_choices(schema: object) -> Sequence[Any]:
    """Return the values of an enumeration, or an empty sequence for another schema."""
    return _read_list(schema, "enum")


def _read_list(schema: object, key: str) -> Sequence[Any]:
    found = _get_entry(schema, key)
    return found if isinstance(found, list) else []


def _get_entry(schema: object, key: str) -> object:
    return schema.get(key) if isinstance(schema, dict) else None
