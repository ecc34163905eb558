"""The differences between two states of a program, as lines for people. Pure."""

import json
from collections.abc import Iterator

from spade.decoding import UnreadableError, try_decode
from spade.text import as_line

LONGEST_VALUE = 200  # characters
MOST_LINES = 40
_ABSENT = object()


def list_differences(before: str, after: str) -> list[str]:
    """List the changes from one JSON text to the next: `+` marks a new path, `-` a removed one, `~` a changed one.

    Each line is printable. After MOST_LINES lines, the rest are only counted.
    """
    try:
        old, new = (try_decode(json.loads, text.encode()) for text in (before, after))
        found = list(_compare_values("", old, new))
    except (UnreadableError, RecursionError):
        return ["~ the state differs; it cannot be compared"] if before != after else []
    more = len(found) - MOST_LINES
    return [*found[:MOST_LINES], *([f"  and {more} more"] if more > 0 else [])]


def _compare_values(path: str, old: object, new: object) -> Iterator[str]:
    match old, new:
        case dict(), dict():
            for key in sorted(old.keys() | new.keys()):
                yield from _compare_values(_extend_path(path, key), old.get(key, _ABSENT), new.get(key, _ABSENT))
        case list(), list():
            for index in range(max(len(old), len(new))):
                ours, theirs = (each[index] if index < len(each) else _ABSENT for each in (old, new))
                yield from _compare_values(f"{path}[{index}]", ours, theirs)
        case _ if old is _ABSENT:
            yield f"+ {as_line(path, LONGEST_VALUE)} = {_format_value(new)}"
        case _ if new is _ABSENT:
            yield f"- {as_line(path, LONGEST_VALUE)} = {_format_value(old)}"
        case _ if json.dumps(old) != json.dumps(new):  # 1 equals true in Python, but not as JSON
            yield f"~ {as_line(path, LONGEST_VALUE)}: {_format_value(old)} → {_format_value(new)}"


def _extend_path(path: str, key: str) -> str:
    if not key.isidentifier():
        return f"{path}[{json.dumps(key, ensure_ascii=False)}]"
    return f"{path}.{key}" if path else key


def _format_value(value: object) -> str:
    return as_line(json.dumps(value, ensure_ascii=False), LONGEST_VALUE)
