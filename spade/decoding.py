"""Bytes that others wrote, decoded in one place: whatever is wrong with them is one error of ours.

A decoder is a pure function of its bytes. So all that it raises is said of them: msgspec raises UnicodeDecodeError and
RecursionError beside its own errors, and a check after decoding raises what it likes.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from spade.errors import SpadeError, reason
from spade.text import visible

LONGEST = 300  # characters of an error's text

T = TypeVar("T")


class UnreadableError(SpadeError, ValueError):
    """Bytes that are not what they should be. The text is one printable line of at most LONGEST characters."""


def decoded(decode: Callable[[bytes], T], data: bytes) -> T:
    """Decode `data` by `decode`. Raises UnreadableError where it raises anything."""
    try:
        return decode(data)
    except Exception as error:
        raise UnreadableError(printable(error)) from None


def each_decoded(read: Iterator[T]) -> Iterator[T]:
    """What a library makes of bytes that others wrote, one by one. Raises UnreadableError where it raises anything."""
    done = object()
    while True:
        try:
            item = next(read, done)
        except Exception as error:
            raise UnreadableError(printable(error)) from None
        if item is done:
            return
        yield item  # type: ignore[misc]


def printable(error: Exception) -> str:
    """An error that may quote what others wrote, in one line of at most LONGEST characters that a terminal can show."""
    return visible(" ".join((reason(error) or type(error).__name__)[:LONGEST].split()))[:LONGEST]
