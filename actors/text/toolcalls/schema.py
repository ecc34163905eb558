"""Reads an untrusted JSON Schema. Malformed parts are ignored. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any


def properties(schema: object) -> Mapping[str, Any]:
    """Return the schemas of an object's values, by name."""
    found = _entry(schema, "properties")
    return found if isinstance(found, dict) else {}


def required(schema: object) -> Sequence[str]:
    """Return the names that an object must have."""
    return [name for name in _listed(schema, "required") if isinstance(name, str)]


def types(schema: object) -> Sequence[str]:
    """Return the types that a schema allows, or an empty sequence if it names none."""
    found = _entry(schema, "type")
    return [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, str)]


def choices(schema: object) -> Sequence[Any]:
    """Return the values of an enumeration, or an empty sequence for another schema."""
    return _listed(schema, "enum")


def _listed(schema: object, key: str) -> Sequence[Any]:
    found = _entry(schema, key)
    return found if isinstance(found, list) else []


def _entry(schema: object, key: str) -> object:
    return schema.get(key) if isinstance(schema, dict) else None
