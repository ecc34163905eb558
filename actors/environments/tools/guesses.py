"""Make random calls of tools, with arguments that their schemas allow. Pure.

An argument without an enumeration gets a word or number that instructions or results have shown. These texts are
hostile, and so are the schemas, since only the child's runtime has checked them. So no schema may cause an error here.
"""

import json
import math
import random
from collections.abc import Sequence
from typing import Any

import msgspec

from actors.environments.offers.words import Words
from actors.sandbox.wire import OfferedTool, ToolFunction
from actors.text.conversation import Move
from actors.text.toolcalls.schema import read_choices, read_properties, read_required, read_types
from spade.decoding import UnreadableError, try_decode
from spade.protocol import Observed, ToolCall

MOST_WORDS = 1_000
"""The largest number of words that a guesser remembers. It forgets the oldest ones."""
OPTIONAL = 0.5
"""The probability of giving an optional argument."""
REPEATED = 0.25
"""The share of messages that repeat known calls of agents."""
DEPTH = 4
"""The deepest nesting of arguments. Deeper lists and objects are empty."""
_END_CHARACTERS = 4_096
_DIGITS = range(10)

_tools: msgspec.json.Decoder[tuple[OfferedTool, ...]] = msgspec.json.Decoder(tuple[OfferedTool, ...])


def read_tools(observed: Observed) -> tuple[ToolFunction, ...]:
    """Return the tools of an opening, or () if they cannot be read."""
    try:
        return tuple(tool.function for tool in try_decode(_tools.decode, observed.tools.encode()))
    except UnreadableError:
        return ()


def make_call(name: str, arguments: object) -> ToolCall:
    """Return a call with its arguments as JSON."""
    return ToolCall(name, json.dumps(arguments))


class RandomCaller:
    """A player for one play that makes a random call in each message, and submits when all instructions are done.

    Sometimes it repeats the calls of one of the `moves` that agents sent on other instances.
    """

    def __init__(self, rng: random.Random, moves: Sequence[Move] = ()) -> None:
        self.rng = rng
        self.moves = [move for move in moves if move.calls]
        self.tools: tuple[ToolFunction, ...] = ()
        self._words: dict[str, None] = {}

    def act(self, seen: Observed) -> Move:
        """Return the next move after an answer."""
        self.hear(seen)
        if not self.tools or seen.done >= seen.instructions:
            return Move("done")
        if self.moves and self.rng.random() < REPEATED:
            return Move("", self.rng.choice(self.moves).calls)
        return Move("", (self.call(self.rng.choice(self.tools)),))

    def hear(self, seen: Observed) -> None:
        """Remember the tools and words of an answer."""
        self.tools = self.tools or read_tools(seen)
        for text in (seen.observation, *(result.text for result in seen.results)):
            ends = f"{text[:_END_CHARACTERS]}\n{text[_END_CHARACTERS:][-_END_CHARACTERS:]}"
            words = Words(ends, self.rng.getrandbits(64))
            for word in (*words.quotes, *words.words, *words.numbers):
                self._words.pop(word, None)
                self._words[word] = None
        for word in list(self._words)[:-MOST_WORDS]:
            del self._words[word]

    def call(self, tool: ToolFunction) -> ToolCall:
        """Return a random call of a tool."""
        return make_call(tool.name, self._draw_object(tool.parameters, DEPTH))

    def _draw_object(self, schema: object, depth: int) -> dict[str, Any]:
        needed = set(read_required(schema))
        return {
            name: self._draw_value(inner, depth - 1)
            for name, inner in read_properties(schema).items()
            if name in needed or self.rng.random() < OPTIONAL
        }

    def _draw_value(self, schema: Any, depth: int) -> object:
        if allowed := read_choices(schema):
            return self.rng.choice(allowed)
        match self.rng.choice(read_types(schema) or ["string"]):
            case "integer":
                return int(self._draw_number(schema))
            case "number":
                return self._draw_number(schema)
            case "boolean":
                return self.rng.random() < 0.5
            case "null":
                return None
            case "array":
                count = self.rng.randint(1, 2) if depth > 0 else 0
                return [self._draw_value(schema.get("items"), depth - 1) for _ in range(count)]
            case "object":
                return self._draw_object(schema, depth) if depth > 0 else {}
            case _:
                return self.rng.choice(list(self._words)) if self._words else ""

    def _draw_number(self, schema: dict[str, Any]) -> float | int:
        """Draw a shown number or a digit within the schema's bounds, or return a bound if none fits."""
        low, high = find_bound(schema, "minimum"), find_bound(schema, "maximum")
        heard = [number for number in map(_parse_number, self._words) if number is not None]
        fitting: list[float | int] = [each for each in (*heard, *_DIGITS) if low <= each <= high]
        if fitting:
            return self.rng.choice(fitting)
        return next((math.ceil(each) for each in (low, high) if math.isfinite(each)), 0)


def find_bound(schema: object, keyword: str) -> float:
    """Return the least or the greatest number that a schema allows. It is infinite if the schema sets no bound."""
    value: Any = schema.get(keyword) if isinstance(schema, dict) else None
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63:
        return float(value) if isinstance(value, float) else int(value)
    return -math.inf if keyword == "minimum" else math.inf


def _parse_number(word: str) -> float | int | None:
    try:
        return int(word) if word.lstrip("-").isdecimal() else float(word) if word[:1].isdecimal() else None
    except ValueError:
        return None
