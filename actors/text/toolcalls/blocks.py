"""The parts of a message: calls, what should have been calls, and the answer."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from json import JSONDecodeError
from math import isfinite
from typing import Any, NamedTuple, NoReturn

from spade.protocol import MOST_ARGUMENTS, MOST_NAME

DEEPEST = 32
"""Levels of objects and lists inside of arguments."""

BEGIN, END = "<tool_call>", "</tool_call>"
ANSWER, ANSWERED = "<answer>", "</answer>"
_WINDOW = 1024  # characters
_LONGEST_WORD = 16  # characters that may lack their end at the edge of a window: -Infinity, an escape
EITHER = re.compile(f"{BEGIN}|{END}")
_SPACE = re.compile(r"\s*+")


class Call(NamedTuple):
    """A call that can be read. `arguments`: a JSON object as ASCII text, of at most MOST_ARGUMENTS bytes."""

    name: str
    arguments: str


class Malformed(NamedTuple):
    """A block that cannot be read; `why` says what is wrong and where."""

    why: str


Block = Call | Malformed
Schemas = Mapping[str, Mapping[str, Any]]
"""The JSON Schema of each argument, by the names of its tool and of itself."""


class Said(NamedTuple):
    """A message, read: its blocks in order, and the text of its last complete answer; None if it has none.

    `places`: where each block begins and ends in the message, its marks included.
    """

    blocks: tuple[Block, ...]
    answer: str | None
    places: tuple[tuple[int, int], ...] = ()


def read_message(text: str, block: Callable[[str, int], tuple[Block, int]]) -> Said:
    """A message, read. `block` reads the one whose content begins at a place, and tells the place behind it."""
    blocks, outside, places, at = list[Block](), list[str](), list[tuple[int, int]](), 0
    while (begin := text.find(BEGIN, at)) >= 0:
        outside.append(text[at:begin])
        found, at = block(text, begin + len(BEGIN))
        blocks.append(found)
        places.append((begin, at))
    return Said(tuple(blocks), _answer("\n".join([*outside, text[at:]])), tuple(places))


def _answer(text: str) -> str | None:
    end = text.rfind(ANSWERED)
    begin = text.rfind(ANSWER, 0, max(end, 0))
    return text[begin + len(ANSWER) : end] if begin >= 0 else None


def past_space(text: str, at: int) -> int:
    """The first place from `at` that is no white space."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


def past_block(text: str, at: int) -> int:
    """The first place from `at` that can belong to another block: behind this one's closing mark, or at the next one.

    Without either all of the text belongs to this block.
    """
    found = EITHER.search(text, at)
    if found is None:
        return len(text)
    return found.end() if found.group() == END else found.start()


def decode(text: str, at: int = 0) -> tuple[Any, int]:
    """One JSON value, and the place behind it. Raises ValueError that says what is wrong, and where from `at`."""
    try:
        value, end = _decode(text, at)
    except JSONDecodeError as error:
        wrong = "ends too early" if at + error.pos >= len(text) else f"is invalid at character {error.pos + 1}"
        raise ValueError(f"the JSON {wrong}: {error.msg[:1].lower()}{error.msg[1:]}") from None
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    return value, at + end


def _decode(text: str, at: int) -> tuple[Any, int]:
    """One JSON value, and the place behind it from `at`. Raises JSONDecodeError, whose place is from there, too.

    The text is decoded in a window that grows while its edge may be to blame: an error counts the lines before it,
    which is quadratic over many errors in one text.
    """
    width = _WINDOW
    while True:
        window = text[at : at + width]
        whole = at + width >= len(text)
        try:
            value, end = _DECODER.raw_decode(window)
        except JSONDecodeError as error:
            if whole or (error.pos < len(window) - _LONGEST_WORD and not error.msg.startswith("Unterminated")):
                raise
        else:
            if whole or end < len(window):
                return value, end
        width *= 8


def call(name: object, arguments: object) -> Block:
    """A call, or the reason why it is none. Without arguments there are none; a text of an object is read as that."""
    if not isinstance(name, str) or not name:
        return Malformed('the call has no name: "name" must be a text that is not empty')
    if len(name) > MOST_NAME or not _is_text(name):
        return Malformed(f'"name" must be a text of at most {MOST_NAME} characters')
    if isinstance(arguments, str):
        try:
            arguments = whole(arguments)
        except ValueError as error:
            return Malformed(f'"arguments" must be an object; of the text there, {error}')
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        return Malformed('"arguments" must be an object')
    if _too_deep(arguments):
        return Malformed(f'"arguments" are nested too deeply: over {DEEPEST} levels')
    text = json.dumps(arguments)
    if len(text) > MOST_ARGUMENTS:
        return Malformed(f'"arguments" are too long: {len(text)} bytes, over {MOST_ARGUMENTS}')
    return Call(name, text)


def whole(text: str) -> Any:
    """A text that is one JSON value. Raises ValueError as decode does."""
    value, end = decode(text, past_space(text, 0))
    if (end := past_space(text, end)) < len(text):
        raise ValueError(f"there is more behind the JSON, at character {end + 1}")
    return value


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can escape
        return False
    return True


def _too_deep(value: object) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [item for inner in level for item in _items(inner)]
        if not level:
            return False
    return True


def _items(value: object) -> Iterable[object]:
    match value:
        case dict():
            return value.values()
        case list():
            return value
    return ()


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _number(digits: str) -> float:
    if not isfinite(number := float(digits)):
        raise ValueError("a number is too large")
    return number


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        raise ValueError("a number has too many digits") from None


_DECODER = json.JSONDecoder(parse_constant=_constant, parse_float=_number, parse_int=_integer)
