"""Make the text of models and files printable, so that it cannot control a terminal or forge a line.

Also quote words of commands, and format figures and times for people.
"""

import shlex
from pathlib import Path

LONGEST_LINE = 10_000  # characters. A line that is cut ends with the length of the whole text
SHORT_DIGEST = 16  # digits of a digest in messages and in names of folders
LONGEST_S = 1e12  # longest time that is printed
_KEPT = frozenset("\n\t")


def make_visible(text: str) -> str:
    """Escape each unprintable character as Python does. Newlines and tabs stay.

    Unprintable are control characters, marks of direction, characters without width, unassigned characters and lone
    surrogates.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in _KEPT else ascii(char)[1:-1] for char in text)


def as_line(text: str, most: int = LONGEST_LINE) -> str:
    """Return `text` as one line. Newlines and tabs are escaped too, and the text is cut to `most` characters."""
    shown = make_visible(text[:most]).replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(text) <= most else f"{shown}… ({len(text)} characters)"


def quote(word: str | Path) -> str:
    """Quote a path or another word of a command for a message, if a shell needs the quotes."""
    return shlex.quote(str(word))


def format_beside(value: float, bound: float) -> str:
    """Format a figure that is over a bound, with enough digits to differ from `f"{bound:g}"`."""
    shown = float(f"{bound:g}")
    texts = (f"{value:.{digits}g}" for digits in range(4, 18))
    return next((text for text in texts if abs(float(text)) != abs(shown)), repr(value))


def format_clock(seconds: float) -> str:
    """Format a time as mm:ss, or as h:mm:ss from one hour on."""
    minutes, rest = divmod(int(min(max(seconds, 0), LONGEST_S)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"
