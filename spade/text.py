"""Text of models and files made printable for people: it cannot control a terminal or forge a line. And times."""

LONGEST_LINE = 10_000  # characters; a cut line ends with its full length
LONGEST_S = 1e12  # told of a time
_KEPT = frozenset("\n\t")


def visible(text: str) -> str:
    """`text` with each unprintable character escaped as in Python; newlines and tabs stay.

    Unprintable are controls, escapes, marks of direction, characters without width, unassigned ones and lone
    surrogates.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in _KEPT else ascii(char)[1:-1] for char in text)


def line(text: str, most: int = LONGEST_LINE) -> str:
    """`text` as one line: newlines and tabs are escaped too, and the text is cut to `most` characters."""
    shown = visible(text[:most]).replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(text) <= most else f"{shown}… ({len(text)} characters)"


def beside(value: float, bound: float) -> str:
    """Write a figure that is over a bound, with as many digits as show this beside `f"{bound:g}"`."""
    shown = float(f"{bound:g}")
    texts = (f"{value:.{digits}g}" for digits in range(4, 18))
    return next((text for text in texts if abs(float(text)) != abs(shown)), repr(value))


def clock(seconds: float) -> str:
    """A time as mm:ss, from an hour on as h:mm:ss."""
    minutes, rest = divmod(int(min(max(seconds, 0), LONGEST_S)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"
