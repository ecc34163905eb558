"""Find f-strings in the text of a program, and the braces of their literal parts. One pass, without a parser.

An f-string ends at the next quote of the kind that opened it, as in Python 3.11. A field is a `{…}` with an expression.
Offsets count characters of the program.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

LONGEST = 1_000
"""The largest number of characters of a field. A longer field is not read."""


class Literal(NamedTuple):
    """An f-string in a program."""

    opening: str
    """The prefix and the opening quotes."""
    start: int
    """The offset after the opening quotes."""
    end: int
    """The offset of the closing quotes."""

    @property
    def quotes(self) -> str:
        """The quotes that close the f-string."""
        return self.opening.lstrip("fFrR")


class UncertainError(Exception):
    """It is uncertain how the text must be read."""


_TOKEN = re.compile(
    r"""
      \#[^\n]*+
    | \"{3} (?: [^"\\]++ | \\. | "(?!"") )*+ \"{3}  |  '{3} (?: [^'\\]++ | \\. | '(?!'') )*+ '{3}
    | "(?!"") (?: [^"\\\n]++ | \\. )*+ "  |  '(?!'') (?: [^'\\\n]++ | \\. )*+ '
    | ["']
    """,
    re.DOTALL | re.VERBOSE,
)
_PREFIX = re.compile(r"(?<!\w)(?:f|fr|rf)\Z", re.IGNORECASE)
_PLAIN = re.compile(r"\\N\{[^{}]*+\}|\\[^{}]|\{\{|\}\}|[{}]", re.DOTALL)
_RAW = re.compile(r"\{\{|\}\}|[{}]")
_CODE = re.compile(r"""[\[({})\]:'"]|!(?!=)""")
_SPEC = re.compile(r"[{}]")


def find_literals(source: str) -> Iterator[Literal]:
    """Yield the f-strings in their order. Raises UncertainError at a string that does not end."""
    for token in _TOKEN.finditer(source):
        first, start = token[0], token.start()
        if len(first) == 1 and first != "#":
            raise UncertainError
        if first[0] != "#" and start and source[start - 1] in "fFrR":
            prefix = _PREFIX.search(source, max(start - 3, 0), start)
            if prefix:
                wide = 3 if first.startswith(('"""', "'''")) else 1
                yield Literal(prefix[0] + first[:wide], start + wide, token.end() - wide)


def find_brace(source: str, literal: Literal, at: int) -> re.Match[str] | None:
    """Return the next brace, single or doubled, from the offset `at` on. Skips escapes. None if no brace is left.

    `at` must lie in a literal part of the f-string.
    """
    marks = _RAW if "r" in literal.opening.lower() else _PLAIN
    while mark := marks.search(source, at, literal.end):
        if mark[0][0] in "{}":
            return mark
        at = mark.end()
    return None


def find_field_end(source: str, literal: Literal, start: int) -> int:
    """Return the offset after the field that opens at `start`, or -1 if it does not end within LONGEST characters."""
    end, at, depth = min(literal.end, start + LONGEST), start + 1, 0
    while mark := _CODE.search(source, at, end):
        at, sign = mark.end(), mark[0]
        if sign in "'\"":
            quote = sign * 3 if source.startswith(sign * 3, mark.start()) else sign
            closing = source.find(quote, mark.start() + len(quote), end)
            if closing < 0:
                return -1
            at = closing + len(quote)
        elif sign in "([{":
            depth += 1
        elif depth == 0:
            return at if sign == "}" else _find_spec_end(source, at, end) if sign in ":!" else -1
        elif sign in ")]}":
            depth -= 1
    return -1


def _find_spec_end(source: str, at: int, end: int) -> int:
    """Return the offset after a field whose conversion or format begins at `at`. Returns -1 if the field has no end."""
    depth = 0
    for mark in _SPEC.finditer(source, at, end):
        depth += 1 if mark[0] == "{" else -1
        if depth < 0:
            return mark.end()
    return -1


def find_fields(source: str) -> list[tuple[int, int]]:
    """Return start and end of all outermost fields of a program that compiles. Raises UncertainError."""
    found = []
    for literal in find_literals(source):
        at = literal.start
        while mark := find_brace(source, literal, at):
            at = mark.end()
            if mark[0] == "{":
                at = find_field_end(source, literal, mark.start())
                if at < 0:
                    raise UncertainError
                found.append((mark.start(), at))
    return found


def double_characters(source: str, offsets: list[int]) -> str:
    """Double the characters of a text at these ascending offsets."""
    ends = (0, *offsets, len(source))
    return "".join(source[start : end + 1] for start, end in pairwise(ends))
