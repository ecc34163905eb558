"""Print the output of commands. Every line, value and message goes through this module or `app.screen.console`."""

import io
import os
import re
import sys
from contextlib import suppress
from typing import Any

from spade.text import as_line, make_visible

_NOT_ASCII = re.compile(r"[^\n -~]")


class _Errors(io.TextIOWrapper):
    """Standard error with unprintable characters escaped, also in warnings and in messages about mistyped options."""

    def write(self, text: str) -> int:
        """Write a text with unprintable characters escaped."""
        return super().write(make_visible(text))


def open_streams() -> None:
    """Make all standard streams usable. Opens closed ones on /dev/null, and escapes text that cannot be encoded."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # the stream is closed, and the next opened file would get its number
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    encoding = sys.stderr.encoding if sys.stderr else None
    sys.stderr = _Errors(os.fdopen(2, "wb", closefd=False), encoding, "backslashreplace", line_buffering=True)
    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def say(text: str = "") -> None:
    """Print `text` as one line, and flush the stream."""
    print(as_line(text), flush=True)


def show(text: str) -> None:
    """Print a text of several lines. Characters that would steer the terminal are escaped."""
    print(make_visible(text), flush=True)


def complain(text: str) -> None:
    """Print the reason of a failure as one line to standard error."""
    with suppress(OSError):  # standard error is closed
        print(as_line(text), file=sys.stderr)


def print_json(value: Any) -> None:
    """Print a value as indented JSON in ASCII, which is exact and safe for a terminal. Structs become objects."""
    import msgspec

    from spade.codec import convert_to_named

    text = msgspec.json.format(msgspec.json.encode(convert_to_named(value)), indent=2).decode()
    print(_NOT_ASCII.sub(_escaped, text))


def _escaped(found: re.Match[str]) -> str:
    """Escape a character of a JSON string as its UTF-16 code units."""
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
