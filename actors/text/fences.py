"""Finds the program in a completion: the fenced block that defines the environment. Reads text only, in linear time."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from spade.protocol import Repairs

_FENCE = re.compile(r"^([ \t]*+)(`{3,}+|~{3,}+)[ \t]*+([^`\n]*+)$", re.MULTILINE)
_CLASS = re.compile(r"^([ \t]*+)class\s++\w", re.MULTILINE)


class WrittenProgram(NamedTuple):
    """A program as it was written in a completion."""

    source: str
    """The program's source."""

    repairs: Repairs = ()
    """("fences",) if the block was indented or never closed, otherwise empty."""


class _Block(NamedTuple):
    text: str
    """The text between the fences."""

    closed: bool
    """True if a closing fence ends the block."""

    python: bool
    """True if the fence names Python or no language."""


def find_program(text: str, methods: tuple[str, ...] = ("reset", "step")) -> WrittenProgram | None:
    """Return the last fenced block with a class and all `methods`.

    Without such a block, returns the last Python block with a class, or None.
    """
    wanted = [re.compile(rf"^[ \t]++def\s++{name}\b", re.MULTILINE) for name in methods]
    last = None
    for block in _find_blocks(text):
        margins = [margin[1] for margin in _CLASS.finditer(block.text)]
        if not margins:
            continue
        whole = all(method.search(block.text) for method in wanted)
        if whole or (block.python and (last is None or not last[0])):
            margin = min(margins, key=len)
            source = _remove_margin(block.text, margin)
            last = whole, WrittenProgram(source, () if block.closed and not margin else ("fences",))
    return None if last is None else last[1]


def find_code(text: str) -> str:
    """Return the text of the last fenced block of Python, or of no named language. Returns "" without one."""
    return next((block.text for block in reversed(list(_find_blocks(text))) if block.python), "")


def _find_blocks(text: str) -> Iterator[_Block]:
    """Yield the fenced blocks in order.

    A block ends in one of three ways:
    * at a closing fence like its own, indented no further and at least as long
    * at a new opening fence of Python, which cannot be Python text
    * at the end of the text
    """
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        indent, marks, language = len(fence[1]), fence[2], fence[3].strip()
        if opening is not None:
            if indent > len(opening[1]):
                continue
            closes = not language and marks.startswith(opening[2])
            if not (closes or _is_python(language)):
                continue
            yield _make_block(text, opening, fence.start(), closes)
            if closes:
                opening = None
                continue
        opening = fence
    if opening is not None:
        yield _make_block(text, opening, len(text), False)


def _make_block(text: str, opening: re.Match[str], end: int, closed: bool) -> _Block:
    language = opening[3].strip()
    return _Block(text[opening.end() + 1 : end], closed, not language or _is_python(language))


def _is_python(language: str) -> bool:
    return language.lstrip("{. ").lower().startswith("py")


def _remove_margin(text: str, margin: str) -> str:
    """Remove the white space `margin` from the beginning of each line, or the part of it that the line has."""
    if not margin:
        return text
    return "\n".join(_remove_line_margin(line, margin) for line in text.split("\n"))


def _remove_line_margin(line: str, margin: str) -> str:
    if line.startswith(margin):
        return line[len(margin) :]
    bare = line.lstrip(" \t")
    return bare if len(line) - len(bare) <= len(margin) else line
