r"""Read the letter that a model put in its box in answer to a question with lettered choices. Pure.

A letter counts only as a label: `C`, `(c)`, `\textbf{C.} 42`, `C - 42 nm`, `Option C`. An article ("A mixture"),
a name ("D-glucose", "C = 12") and two letters ("A and C") choose nothing.
"""

import re
import unicodedata
from functools import cache
from typing import NamedTuple

LONGEST = 10_000
"""Only this many characters at the beginning of an answer are searched for a letter."""

_STYLES = re.compile(
    r"\\(?:text)?color\s*+\{[^{}]*+\}"
    r"|\\(?:(?:text|math)[a-z]*+|(?:operatorname|boldsymbol|bm|pmb|[mhf]box|emph|underline|checkmark|left|right"
    r"|[bB]igg?[lr]?|boxed|displaystyle|ensuremath|tiny|scriptsize|footnotesize|small|normalsize|[lL]arge|LARGE|[hH]uge"
    r"|(?:bf|rm|it|sf|tt|em)(?:series|family|shape)?)"
    r"(?![A-Za-z]))|\\[()\[\]{}]|[{}$*`#\u2713\u2714\u2705]|(?<![^\W_])_++|_++(?![^\W_])"
)
_SPACES = re.compile(r"\\[,;:! ~]|~")
_WIDE_SPACES, _WIDE = (
    re.compile(r"\\(?:\\|(?:q?quad|enspace|hfill|newline)(?![A-Za-z])|(?:[hv]space\*?|[hv]?phantom)\{[^{}]*+\})"),
    "\u2003",
)
"""A wide space of TeX ends a label, as the end of a line does. So it becomes a character of its own, `_WIDE`."""
_NOUN = r"(?:(?:the|my)\s++)?(?:(?:correct|right|best|final)\s++)?(?:answer|option|choice|letter)"
_IS = r"(?:is|would\s++be|must\s++be|should\s++be)(?:\s++(?:therefore|thus|hence|then|clearly|indeed))?"
_OPENING, _ENDING = r"[\s(\[\"'\u201c\u2018<]*+", r"[\"'\u201d\u2019>]*+"
_REASON = r"(?:because|since|as|for|due|given|is\s++(?:the\s++)?(?:correct|right|best))\b"
_PREFIX = rf"(?i:{_NOUN}(?:\s++{_IS})?\s*+[:=]?|it(?:'s|\s++is)\s*+:?)?"
_IF = r"(?:only\s++)?(?:if|unless|when)\b"
_REFUSED = r"\s++(?:is|are)\s++(?:wrong|incorrect|false|not)\b"
_REJECTED = re.compile(
    r"[(\[][^()\[\]]*?\b(?:not|rather\s++than|instead\s++of|unlike)\s[^()\[\]]*+[)\]]", re.IGNORECASE
)
"""A remark in brackets that names letters which are not chosen: D (not A)."""


class _Patterns(NamedTuple):
    """Patterns for one set of letters."""

    label: re.Pattern[str]
    """A letter at the beginning of the text, as a label."""
    joined: re.Pattern[str]
    """A further letter directly after a label."""
    other: re.Pattern[str]
    """Another label anywhere in the rest, as in `A - 1, B - 2`."""
    labels: re.Pattern[str]
    """A text that consists only of single letters and connectives."""


@cache
def _compile_patterns(letters: str) -> _Patterns:
    upper, either = letters.upper(), letters.upper() + letters.lower()
    others = upper.replace("A", "") or upper
    bracket, wide = r" *+[)\]][\"'\u201d\u2019>]*+(?![\^_+=*/])", rf" *+{_WIDE}(?!\s*+[\^_+=*/])"
    closed = rf"{_ENDING}(?:(?=[ \t\r]*+$)|{bracket}|{wide}| *+[,:;!]|\.(?![^\W\d_]))"
    reason = rf"\s++(?:[-\u2013\u2014]+\s|{_REASON}|\((?!{_IF})(?:[^)]{{2,}}|\d)\)|\[[^\]]{{2,}}\])"
    label = rf"{_OPENING}(?:([{either}]){closed}|([{upper}])(?={reason}|\s*+[\u2013\u2014]))"
    return _Patterns(
        label=re.compile(rf"\s*+{_PREFIX}\s*+{label}"),
        joined=re.compile(
            rf"\s*+(?:(?:and|or|&|/|\+)\s*+[(\[\"']*+[{upper}]|[(\[\"']*+[{others}])(?![\w'\u2019-]|{_REFUSED})"
        ),
        other=re.compile(
            r"(?:(?<![\w(\[])(?=.[):\]])"
            r"|(?:[,;]|\b(?:or|and))\s++\(?(?=.(?:\s++-\s|\s*+[\u2013\u2014]|[.)]\s)))"
            rf"([{letters}])"
        ),
        labels=re.compile(r"(?:\W|_|\band\b|\bor\b|\b[^\W\d_]\b)*+"),
    )


def find_letter(text: str, letters: str) -> str:
    """Return the letter that the content of a box chooses. Returns "" if it chooses none or several."""
    patterns = _compile_patterns(letters)
    # A space in TeX, `\\ `, may have lost its end.
    plain = _remove_marks(text[:LONGEST]).strip().removesuffix("\\").rstrip()
    if (found := patterns.label.match(plain)) is None:
        return ""
    letter, rest, end = next(filter(None, found.groups())).upper(), plain[found.end() :], found[0][-1:]
    further = patterns.joined.match(rest) if end in ",)];&" or end.isalpha() else None
    others = patterns.other.findall(_REJECTED.sub("", rest))
    listed = re.findall(r"\b[^\W\d_]\b", rest) if patterns.labels.fullmatch(rest) else ()
    named = [*(further[0].strip(" (['\"")[-1:] if further else ""), *others, *listed]
    return "" if any(each.upper() != letter for each in named) else letter


def _remove_marks(text: str) -> str:
    """Remove commands of style, and marks of Markdown and mathematics. Normalize Unicode (NFKC)."""
    return _STYLES.sub("", _SPACES.sub(" ", _WIDE_SPACES.sub(_WIDE, unicodedata.normalize("NFKC", text))))
