"""Bytes that others wrote, decoded in one place: whatever is wrong with them is one error of ours.

A decoder is a pure function of its bytes. So all that it raises is said of them: msgspec raises UnicodeDecodeError and
RecursionError beside its own errors, and a check after decoding raises what it likes.
"""

from collections.abc import Callable
from typing import TypeVar

from spade.errors import SpadeError, reason

LONGEST = 300  # characters of an error's text

T = TypeVar("T")


class UnreadableError(SpadeError, ValueError):
    """Bytes that are not what they should be. The text is one printable line of at most LONGEST characters."""


def decoded(decode: Callable[[bytes], T], data: bytes) -> T:
    """What `decode` makes of `data`. Raises UnreadableError where it raises anything."""
    try:
        return decode(data)
    except Exception as error:
        raise UnreadableError(_line(reason(error) or type(error).__name__)) from None


def _line(text: str) -> str:
    """Words of a decoder, which may quote its bytes, as a terminal can show them."""
    words = " ".join(text[:LONGEST].split())
    shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in words)
    return shown[:LONGEST]
