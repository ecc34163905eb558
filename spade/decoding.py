"""Decode bytes from outside. Every fault of the bytes becomes an UnreadableError.

A decoder is a pure function of its bytes, so every exception that it raises is a fault of the bytes. msgspec also
raises UnicodeDecodeError and RecursionError, and a check after decoding may raise any exception.
"""

import re
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from spade.errors import LONE_SURROGATE, SpadeError, format_reason
from spade.text import as_line, make_visible

LONGEST = 300  # characters of an error's text

_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE_SURROGATE = re.compile(
    # Skip escaped backslashes first: such a backslash does not begin an escape.
    rb"(?<!\\)(?:\\\\)*(?:%b(?!%b)|(?<!%b)%b)" % (_HIGH, _LOW, rb"\\u[dD][89abAB]..", _LOW)
)
"""Half of a surrogate pair in JSON."""

T = TypeVar("T")


class UnreadableError(SpadeError, ValueError):
    """Bytes that cannot be decoded. The error's text is one printable line of at most LONGEST characters."""


def try_decode(decode: Callable[[bytes], T], data: bytes) -> T:
    """Decode `data` with `decode`. Raises UnreadableError for any exception of `decode`."""
    try:
        return decode(data)
    except msgspec.DecodeError as error:
        # If a lone surrogate stands before a quotation mark, msgspec calls the data "truncated".
        lone = any(sign in str(error) for sign in ("truncated", "surrogate")) and _LONE_SURROGATE.search(data)
        raise UnreadableError(LONE_SURROGATE if lone else make_printable(error)) from None
    except Exception as error:
        raise UnreadableError(make_printable(error)) from None


def read_each(read: Iterator[T]) -> Iterator[T]:
    """Yield the items that a library reads from untrusted bytes.

    Raises UnreadableError if the library raises any exception.
    """
    done = object()
    while True:
        try:
            item = next(read, done)
        except Exception as error:
            raise UnreadableError(make_printable(error)) from None
        if item is done:
            return
        yield item  # type: ignore[misc]


def make_printable(error: Exception) -> str:
    """Return the text of an error, which may quote untrusted bytes, as one printable line of at most LONGEST
    characters."""
    return make_visible(" ".join((format_reason(error) or type(error).__name__)[:LONGEST].split()))[:LONGEST]


def read_first_line(error: Exception) -> str:
    """Return the type of a library's error and the first line of its text, as one printable line."""
    text = next(filter(None, map(str.strip, str(error).splitlines())), "")
    return as_line(f"{type(error).__name__}: {text}", LONGEST)
