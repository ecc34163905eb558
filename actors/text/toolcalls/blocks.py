"""The parts of a message: blocks and the answer. A block is a call as the model wrote it; it may be malformed."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from json import JSONDecodeError
from math import isfinite
from typing import Any, NamedTuple, NoReturn

from spade.protocol import MOST_ARGUMENTS, MOST_NAME

DEEPEST = 32
"""The largest depth of nested objects and lists in arguments."""

BEGIN, END = "<tool_call>", "</tool_call>"
ANSWER, ANSWERED = "<answer>", "</answer>"
_WINDOW = 1024  # characters
_LONGEST_WORD = 16  # characters; the edge of a window may cut a word of this length, such as -Infinity
EITHER = re.compile(f"{BEGIN}|{END}")
_SPACE = re.compile(r"\s*+")


class Call(NamedTuple):
    """A readable call."""

    name: str
    """Name of the tool."""

    arguments: str
    """A JSON object as ASCII text of at most MOST_ARGUMENTS bytes."""


class MalformedBlock(NamedTuple):
    """A block that cannot be read."""

    why: str
    """The fault and its place."""


Block = Call | MalformedBlock
Schemas = Mapping[str, Mapping[str, Any]]
"""The JSON Schema of each argument, by tool name and argument name."""


class ParsedMessage(NamedTuple):
    """The parts of a message."""

    blocks: tuple[Block, ...]
    """The blocks, in order."""

    answer: str | None
    """The text of the last complete answer, or None."""

    places: tuple[tuple[int, int], ...] = ()
    """Start and end of each block in the message, including its marks."""


def read_message(text: str, block: Callable[[str, int], tuple[Block, int]]) -> ParsedMessage:
    """Read a message.

    `block` reads one block, given the text and the place after the opening mark. It returns the block and the place
    after the block.
    """
    blocks, outside, places, at = list[Block](), list[str](), list[tuple[int, int]](), 0
    while (begin := text.find(BEGIN, at)) >= 0:
        outside.append(text[at:begin])
        found, at = block(text, begin + len(BEGIN))
        blocks.append(found)
        places.append((begin, at))
    return ParsedMessage(tuple(blocks), _answer("\n".join([*outside, text[at:]])), tuple(places))


def _answer(text: str) -> str | None:
    end = text.rfind(ANSWERED)
    begin = text.rfind(ANSWER, 0, max(end, 0))
    return text[begin + len(ANSWER) : end] if begin >= 0 else None


def skip_space(text: str, at: int) -> int:
    """Return the first place from `at` that is not white space."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


def skip_block(text: str, at: int) -> int:
    """Return the first place from `at` that may belong to another block: after a closing mark or at an opening mark.

    Without such a mark, all of the text belongs to this block.
    """
    found = EITHER.search(text, at)
    if found is None:
        return len(text)
    return found.end() if found.group() == END else found.start()


def decode(text: str, at: int = 0) -> tuple[Any, int]:
    """Decode one JSON value. Return the value and the place after it.

    Raises ValueError with the fault and its place, counted from `at`.
    """
    try:
        value, end = _decode(text, at)
    except JSONDecodeError as error:
        wrong = "ends too early" if at + error.pos >= len(text) else f"is invalid at character {error.pos + 1}"
        raise ValueError(f"the JSON {wrong}: {error.msg[:1].lower()}{error.msg[1:]}") from None
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    return value, at + end


def _decode(text: str, at: int) -> tuple[Any, int]:
    """Decode one JSON value. Return the value and the place after it, counted from `at`.

    Raises JSONDecodeError. Its place is also counted from `at`. Only a window of the text is decoded. The window grows
    while its edge may have caused the error. Without a window, a text with many errors would take quadratic time,
    because JSONDecodeError counts all lines before the error.
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
    """Build a Call, or a MalformedBlock with the reason why this is impossible.

    `arguments` is an object, or the JSON of one. Missing arguments become {}.
    """
    if not isinstance(name, str) or not name:
        return MalformedBlock('the call has no name: "name" must be a text that is not empty')
    if len(name) > MOST_NAME or not _is_text(name):
        return MalformedBlock(f'"name" must be a text of at most {MOST_NAME} characters')
    if isinstance(arguments, str):
        try:
            arguments = decode_whole(arguments)
        except ValueError as error:
            return MalformedBlock(f'"arguments" must be an object; its text cannot be read: {error}')
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        return MalformedBlock('"arguments" must be an object')
    if _is_too_deep(arguments):
        return MalformedBlock(f'"arguments" are nested too deeply: over {DEEPEST} levels')
    text = json.dumps(arguments)
    if len(text) > MOST_ARGUMENTS:
        return MalformedBlock(f'"arguments" are too long: {len(text)} bytes, over {MOST_ARGUMENTS}')
    return Call(name, text)


def decode_whole(text: str) -> Any:
    """Decode a text that is exactly one JSON value. Raises ValueError as `decode` does."""
    value, end = decode(text, skip_space(text, 0))
    if (end := skip_space(text, end)) < len(text):
        raise ValueError(f"there is more after the JSON, at character {end + 1}")
    return value


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # JSON can escape half of a surrogate pair, which is not text
        return False
    return True


def _is_too_deep(value: object) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [item for inner in level for item in _list_items(inner)]
        if not level:
            return False
    return True


def _list_items(value: object) -> Iterable[object]:
    match value:
        case dict():
            return value.values()
        case list():
            return value
    return ()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _parse_number(digits: str) -> float:
    if not isfinite(number := float(digits)):
        raise ValueError("a number is too large")
    return number


def _parse_integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        raise ValueError("a number has too many digits") from None


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_number, parse_int=_parse_integer)
