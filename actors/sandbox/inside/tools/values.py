"""Values of a program as text: results of tools, and the canonical form of a state."""

import json
import math
from typing import Any

from ..program import ProgramError, clean, is_a, scalar, shape

_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
STATE_BYTES = 262_144
"""The longest canonical form of a state."""


def blamed(reason: str) -> ProgramError:
    """The fault of a program that breaks the interface during an episode."""
    return ProgramError("protocol", "play", reason)


def result(tool: str, value: object) -> str:
    """A result as text: a str as it is, another value of JSON as JSON. Raises ProgramError for anything else."""
    return clean(value) if is_a(value, str) else as_json(f"the result of {tool}", value)  # type: ignore[arg-type]


def as_json(what: str, value: object) -> str:
    """A value as JSON; ProgramError names `what` is none."""
    try:
        return clean(_encoder.encode(scalar(value)))
    except (TypeError, ValueError) as error:
        raise blamed(f"{what} must be a value of JSON, is {shape(value)}: {error}") from None


def canonical(state: object) -> str:
    """A state as JSON that is the same for equal states: sorted keys, sorted sets, `repr` of what JSON has not."""
    form = clean(json.dumps(_plain(state), ensure_ascii=False))
    if len(form.encode()) > STATE_BYTES:
        raise _too_large()
    return form


def _plain(value: Any) -> object:
    if is_a(value, (dict, list, tuple, set, frozenset)) and len(value) > STATE_BYTES:
        raise _too_large()
    if is_a(value, dict):
        return dict(sorted((_key(key), _plain(inner)) for key, inner in value.items()))
    if is_a(value, (list, tuple)):
        return [_plain(each) for each in value]
    if is_a(value, (set, frozenset)):
        return sorted(map(repr, value))
    if value is None or type(value) in (str, bool, int) or (type(value) is float and math.isfinite(value)):
        return value
    return repr(value)


def _key(key: object) -> str:
    """A key as text; what is no str stands in brackets, so that 1 is not "1"."""
    return key if type(key) is str and not key.startswith("(") else f"({key!r})"


def _too_large() -> ProgramError:
    return blamed(f"_state is over {STATE_BYTES} bytes as JSON")
