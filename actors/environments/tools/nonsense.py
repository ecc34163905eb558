"""Make calls that no sensible player makes: calls to be refused, and calls with meaningless values. Pure."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from actors.environments.tools.guesses import DEPTH, find_bound, make_call
from actors.sandbox.wire import ToolFunction
from actors.text.toolcalls.schema import read_choices, read_properties, read_required, read_types
from spade.protocol import ToolCall

UNKNOWN = "no_such_thing"
TEXTS = ("", UNKNOWN, "x" * 2_000)
NUMBERS = (-1, 987_654_321, -987_654_321)
"""The number that is used together with each of TEXTS, unless the bounds of a schema forbid the number."""


def make_refused_calls(tools: Sequence[ToolFunction]) -> list[ToolCall]:
    """Return calls to be refused: malformed, of unknown tools, with missing, unknown or wrongly typed arguments."""
    calls = [ToolCall(UNKNOWN), ToolCall(tools[0].name, "{"), ToolCall(tools[0].name, "[1]")]
    for tool in tools:
        calls.append(make_call(tool.name, {UNKNOWN + name: 1 for name in ("", *read_properties(tool.parameters))}))
        if read_required(tool.parameters):
            calls.append(make_call(tool.name, {}))
        wrong = {
            name: _find_misfit(inner) for name, inner in read_properties(tool.parameters).items() if read_types(inner)
        }
        if any(value is not None for value in wrong.values()):
            calls.append(make_call(tool.name, {name: value for name, value in wrong.items() if value is not None}))
    return calls


def _find_misfit(schema: object) -> object:
    """Return an object or a list if the schema forbids its type. Returns None if the schema allows both."""
    allowed = read_types(schema)
    return next((value for name, value in (("object", {"a": 1}), ("array", [True])) if name not in allowed), None)


def make_pointless_calls(tools: Sequence[ToolFunction], rng: random.Random) -> Iterator[tuple[ToolCall, bool]]:
    """Yield calls that schemas allow, with empty, unknown and very long texts and with extreme numbers.

    Each call comes with True if it is meaningless, that is, if a required argument has such a value. In an optional
    argument the value may be harmless, such as a huge limit of a list. A tool that takes no such value is not called.
    """
    for text, number in zip(TEXTS, NUMBERS, strict=True):
        for tool in tools:
            meaningless = _Meaningless(text, number, rng)
            arguments = meaningless.fields(tool.parameters, DEPTH, needed=True)
            if meaningless.used:
                yield make_call(tool.name, arguments), meaningless.needed


class _Meaningless:
    """Makes the arguments of one call.

    `used` is True once an argument has a meaningless value. `needed` is True once such an argument is a required one.
    """

    def __init__(self, text: str, number: int, rng: random.Random) -> None:
        self.text = text
        self.number = number
        self.rng = rng
        self.used = self.needed = False

    def fields(self, schema: object, depth: int, needed: bool) -> dict[str, Any]:
        must = read_required(schema)
        return {
            name: self.value(inner, depth - 1, needed and name in must)
            for name, inner in read_properties(schema).items()
        }

    def use(self, needed: bool) -> None:
        self.used = True
        self.needed = self.needed or needed

    def value(self, schema: Any, depth: int, needed: bool) -> Any:
        if allowed := read_choices(schema):
            return self.rng.choice(allowed)
        match (read_types(schema) or ["string"])[0]:
            case "integer" | "number":
                low, high = find_bound(schema, "minimum"), find_bound(schema, "maximum")
                if low <= self.number <= high:
                    self.use(needed)
                    return self.number
                return int(low) if abs(low) < abs(high) else int(high)
            case "boolean":
                return self.rng.random() < 0.5
            case "null":
                return None
            case "array":
                return [self.value(schema.get("items"), depth - 1, needed)] if depth > 0 else []
            case "object":
                return self.fields(schema, depth, needed) if depth > 0 else {}
            case _:
                self.use(needed)
                return self.text
