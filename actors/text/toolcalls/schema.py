"""Reading of a JSON Schema that may hold anything: what it does not say as it should, it does not say. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any


def properties(schema: object) -> Mapping[str, Any]:
    """The schemas of an object's values, by their names."""
    found = _entry(schema, "properties")
    return found if isinstance(found, dict) else {}


def required(schema: object) -> Sequence[str]:
    """The names that an object must have."""
    return [name for name in _listed(schema, "required") if isinstance(name, str)]


def types(schema: object) -> Sequence[str]:
    """The types that a schema allows; none where it names none."""
    found = _entry(schema, "type")
    return [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, str)]


def choices(schema: object) -> Sequence[Any]:
    """The values of an enumeration; none where it is none."""
    return _listed(schema, "enum")


def _listed(schema: object, key: str) -> Sequence[Any]:
    found = _entry(schema, key)
    return found if isinstance(found, list) else []


def _entry(schema: object, key: str) -> object:
    return schema.get(key) if isinstance(schema, dict) else None
