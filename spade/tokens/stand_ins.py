"""Stand-ins: short texts that a template renders in place of a content, and that we find again in its result.

A stand-in is two private-use characters, the digits of its number, between two kinds of white space. A template that
trims a content removes the white space. If it writes JSON, `mark_quoted` moves the digits to a second private plane.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

_LEFT, _RIGHT = "\u1680", "\u205f"
_PLAIN, _QUOTED = 0xF0000, 0x100000
_PRIVATE = f"[{chr(_PLAIN)}-{chr(_QUOTED + 0xFFFF)}]"
_STAND_IN = re.compile(f"({_LEFT}?)({_PRIVATE})({_PRIVATE})({_RIGHT}?)")


@dataclass(frozen=True)
class Slot:
    """The place of one content in a rendered text, and the edits that the template made to the content."""

    number: int
    """Number of the content."""

    trim_left: bool = False
    """True if the template trims the content's left end."""

    trim_right: bool = False
    """True if the template trims the content's right end."""

    quoted: bool = False
    """True if the template writes the content as JSON."""

    def text(self, content: str) -> str:
        """Return `content` as the template shows it."""
        if self.trim_left:
            content = content.lstrip()
        if self.trim_right:
            content = content.rstrip()
        return json.dumps(content, ensure_ascii=False)[1:-1] if self.quoted else content


def make_stand_in(number: int) -> str:
    """Return the stand-in of a content, by a number under 2^32."""
    return f"{_LEFT}{chr(_PLAIN + (number >> 16))}{chr(_PLAIN + (number & 0xFFFF))}{_RIGHT}"


def mark_quoted(json_text: str) -> str:
    """Mark the stand-ins in a JSON text as quoted."""
    return re.sub(_PRIVATE, lambda found: chr(ord(found.group()) & 0xFFFF | _QUOTED), json_text)


def split_pieces(rendered: str) -> Iterator[str | Slot]:
    """Split a rendered text into the texts between its stand-ins and a slot for each stand-in."""
    end = 0
    for found in _STAND_IN.finditer(rendered):
        if found.start() > end:
            yield rendered[end : found.start()]
        left, high, low, right = found.groups()
        number = (ord(high) & 0xFFFF) << 16 | ord(low) & 0xFFFF
        yield Slot(number, not left, not right, ord(low) >= _QUOTED)
        end = found.end()
    if end < len(rendered):
        yield rendered[end:]
