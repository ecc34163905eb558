"""Write values of a program as text: results of tools, and the canonical form of a state."""

import json
import math
from contextlib import suppress
from enum import Enum
from typing import Any

from ..program import ProgramError, convert_scalar, describe_type, escape_surrogates, is_a


def _member_value(member: object) -> object:
    """Return the value of a member of an Enum. Raises TypeError for any other object that JSON cannot express."""
    return member.value if isinstance(member, Enum) else json.JSONEncoder().default(member)


_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_member_value)
STATE_BYTES = 262_144
"""The largest size of the canonical form of a state."""


def make_blamed_error(reason: str) -> ProgramError:
    """Return the error for a program that breaks the interface during an episode."""
    return ProgramError("protocol", "play", reason)


def format_result(tool: str, value: object) -> str:
    """Return a result as text: a str unchanged, another JSON value as JSON. Raises ProgramError for anything else."""
    return escape_surrogates(value) if is_a(value, str) else as_json(f"the result of {tool}", value)  # type: ignore[arg-type]


def as_json(what: str, value: object) -> str:
    """Encode a value as JSON. Raises ProgramError with the name `what` if it is not a JSON value."""
    value = convert_scalar(value)
    try:
        with suppress(TypeError):
            return escape_surrogates(_encoder.encode(value))
        return escape_surrogates(_encoder.encode(_convert_keys(value)))
    except (TypeError, ValueError) as error:
        raise make_blamed_error(f"{what} must be a value of JSON, is {describe_type(value)}: {error}") from None


def _convert_keys(value: Any) -> Any:
    """Replace keys that are members of an Enum by their values. A JSON encoder offers no hook that converts keys."""
    if is_a(value, dict):
        return {convert_scalar(key): _convert_keys(inner) for key, inner in value.items()}
    return [_convert_keys(each) for each in value] if is_a(value, (list, tuple)) else value


def format_canonical(state: object) -> str:
    """Return a state as JSON that is the same for equal states.

    Keys and sets are sorted. Values that JSON lacks are written by `repr`. Raises ProgramError if it is too large.
    """
    form = escape_surrogates(json.dumps(_convert_plain(state), ensure_ascii=False))
    if len(form.encode()) > STATE_BYTES:
        raise _make_too_large_error()
    return form


def _convert_plain(value: Any) -> object:
    if is_a(value, (dict, list, tuple, set, frozenset)) and len(value) > STATE_BYTES:
        raise _make_too_large_error()
    if is_a(value, dict):
        return dict(sorted((_format_key(key), _convert_plain(inner)) for key, inner in value.items()))
    if is_a(value, (list, tuple)):
        return [_convert_plain(each) for each in value]
    if is_a(value, (set, frozenset)):
        return sorted(map(repr, value))
    if value is None or type(value) in (str, bool, int) or (type(value) is float and math.isfinite(value)):
        return value
    return repr(value)


def _format_key(key: object) -> str:
    """Return a key as text. A key that is not a str gets brackets, so that 1 differs from "1"."""
    return key if type(key) is str and not key.startswith("(") else f"({key!r})"


def _make_too_large_error() -> ProgramError:
    return make_blamed_error(f"_state is over {STATE_BYTES} bytes as JSON")
