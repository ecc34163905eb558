r"""Read the letter that a model chose in answer to a question with lettered choices. Pure.

A letter counts only if it is chosen: `C`, `(c)`, `\textbf{C.} 42`, `C - 42 nm`, `Option C`. An article ("A mixture"),
a name ("D-glucose", "C = 12") and two letters ("A and C") choose nothing.
"""

import re
import unicodedata
from functools import cache
from typing import NamedTuple

LONGEST = 10_000
"""Only this many characters at the beginning of a box are searched for a letter."""

_STYLES = re.compile(
    r"\\(?:text)?color\s*+\{[^{}]*+\}"
    r"|\\(?:(?:text|math)[a-z]*+|(?:operatorname|boldsymbol|bm|pmb|[mhf]box|emph|underline|checkmark|left|right"
    r"|[bB]igg?[lr]?|boxed|displaystyle|ensuremath|tiny|scriptsize|footnotesize|small|normalsize|[lL]arge|LARGE|[hH]uge"
    r"|(?:bf|rm|it|sf|tt|em)(?:series|family|shape)?)"
    r"(?![A-Za-z]))|\\[()\[\]{}]|[{}$*`#]|(?<![^\W_])_++|_++(?![^\W_])"
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
_CHOSEN = (
    rf"(?i:\b{_NOUN}(?:\s++to\s++(?:this|the)\s++\w++)?\s*+(?::|=|{_IS}\s*+:?)"
    rf"|^[ \t]*+(?:\d++[.)][ \t]*+)?{_NOUN}[ \t]*+\n"  # a heading
    r"|\bi(?:\s++would|\s++will|'ll|'d)?\s++(?:choose|pick|select|go\s++with)\b)"
    r"\s*+(?i:(?:option|answer|choice|letter)\s++)?+"
)
_VERB = r"\s++(?:is|would\s++be|must\s++be|should\s++be)(?:\s++(?:therefore|thus|hence|then|clearly|indeed))?+"
_GOOD = r"(?:correct|right|best)"
_APPROVED = rf"{_VERB}\s++(?:{_GOOD}|the\s++{_GOOD}(?:\s++\w++){{0,2}})"
_FURTHER = (
    r"(?:which|that|who|with|without|where|while|when|whereas|though|although|then|too|again|overall|here|but|so|if"
    r"|unless|in|by|from|at|to|of|after|before|among|over|via|rather|instead|is|i|we)(?![-\w])"
)
"""Words after a chosen A. Before another word it is an article."""
_ANSWERS = rf"{_VERB}\s++(?:(?:the\s++)?{_GOOD}|(?:the|my)(?:\s++final)?)\s++(?:answer|option|choice)"
_CLAUSE_END = (
    r"(?:\s++(?:to|for)\s++(?:this|the)\s++(?:question|problem))?+"
    r"(?=\W*+$|\s*+[.,:;!?)\]]|\s++[-\u2013\u2014(]|\s++(?:because|since|and|while|whereas|here|given)\b)"
)
"""The end of a clause that approves a letter. "(A) is correct in sign" does not match, since the clause continues."""
_REFUSED = r"\s++(?:is|are)\s++(?:wrong|incorrect|false|not)\b"
_DOUBT = re.compile(
    r"\b(?:if|whether|suppose|unless|doubt\w*|(?:\w+n't|not)\s++(?:think|believe|say|the\s++case)"
    r"|(?:not\s++(?:true|correct|right)|false|wrong|incorrect)\s++(?:that|to\s++(?:say|think|claim|conclude)))\b"
    # Words directly before the matched words, as in "the wrong answer is B" or "assume that the answer is B".
    r"|\b(?:wrong|incorrect|worst|second|next|naive|tempting|trap|other|least(?:\s++\w+)?|otherwise,?+"
    r"|at\s++first(?:\s++(?:glance|sight))?,?+|(?:assum\w+|unlikely|no\s++way|not\s++sure|might\s++(?:think|say|guess)"
    r"|(?:cannot|can't)\s++(?:say|conclude|claim)|(?:error|mistake)\s++is\s++to\s++\w++)(?:\s++that)?)\s*+\Z",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[.!?]\s|\n")
_TURN = re.compile(r"[.!?]\s|\n|,\s+but\s", re.IGNORECASE)
"""The places where a doubt ends: the end of a sentence, and a clause with "but"."""
_REJECTED = re.compile(
    r"[(\[][^()\[\]]*?\b(?:not|rather\s++than|instead\s++of|unlike)\s[^()\[\]]*+[)\]]", re.IGNORECASE
)
"""A remark in brackets that names letters which are not chosen: D (not A)."""
_IF = r"(?:only\s++)?(?:if|unless|when)\b"
_CONDITION = re.compile(rf"\s++\(?{_IF}", re.IGNORECASE)

_SENTENCE_LENGTH = 300  # only this many characters of a sentence are read


class _Patterns(NamedTuple):
    """Patterns for one set of letters."""

    label: re.Pattern[str]
    """A letter at the beginning of the text, as a label."""
    stated: re.Pattern[str]
    """A letter that a sentence names as the answer."""
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
    closed = rf"{_ENDING}(?:(?=[ \t\r]*+$)|{bracket}|{wide}|[,:;!]|\.(?![^\W\d_]))"
    reason = rf"\s++(?:[-\u2013\u2014]+\s|{_REASON}|\((?!{_IF})(?:[^)]{{2,}}|\d)\)|\[[^\]]{{2,}}\])"
    label = rf"{_OPENING}(?:([{either}]){closed}|([{upper}])(?={reason}|\s*+[\u2013\u2014]))"
    # In a sentence, words may follow the letter. But an A before a word is an article.
    single = r"(?<!\band )(?<!\bor )(?<!\bnor )\b(?i:option|answer|choice)"
    named = rf"{single}\s++\(?(?P<named>[{upper}])\)?(?i:{_APPROVED})\b"
    begun = r"(?:^|[.,:;!]\s|(?i:\b(?:so|thus|hence|therefore|that)\s))\s*+"
    bare = rf"{begun}\(?(?P<bare>[{upper}])\)?(?i:{_ANSWERS})\b"
    marked = rf"{begun}\((?P<marked>[{upper}])\)(?i:{_APPROVED})\b"
    approved = rf"(?:{named}|{bare}|{marked})(?i:{_CLAUSE_END})(?!,?\s++(?i:and|or)\s++(?i:option\s++)?\(?[{upper}]\b)"
    sentence = rf"{label}|{_OPENING}(?:([{others}])(?=\s++(?!and\b|or\b|nor\b)[a-z(])|([{upper}])(?=\s++{_FURTHER}))"
    return _Patterns(
        label=re.compile(rf"\s*+{_PREFIX}\s*+{label}"),
        stated=re.compile(rf"{_CHOSEN}(?:{sentence})|{approved}", re.MULTILINE),
        joined=re.compile(
            rf"\s*+(?:(?:and|or|&|/|\+)\s*+[(\[\"']*+[{upper}]|[(\[\"']*+[{others}])(?![\w'\u2019-]|{_REFUSED})"
        ),
        other=re.compile(
            rf"(?:(?<![\w(\[])(?=.[):\]])|[,;]\s++\(?(?=.(?:\s++-\s|\s*+[\u2013\u2014]|\.\s)))([{letters}])"
        ),
        labels=re.compile(r"(?:\W|_|\band\b|\bor\b|\b[^\W\d_]\b)*+"),
    )


def find_labelled(text: str, letters: str) -> str:
    """Return the letter that a short answer, such as a box, chooses. Returns "" if it chooses none or several."""
    plain = (
        _remove_marks(text[:LONGEST]).strip().removesuffix("\\").rstrip()
    )  # a space in TeX, `\\ `, may have lost its end
    found = _compile_patterns(letters).label.match(plain)
    return _read_single(found, plain[found.end() :], letters) if found else ""


def find_stated(text: str, letters: str) -> str:
    """Return the letter that a text without a box names as the answer. The last such sentence counts.

    A short text that consists of a label counts as well. Returns "" if the text chooses no letter or several.
    """
    plain = _remove_marks(text).strip()
    for found in reversed(list(_compile_patterns(letters).stated.finditer(plain))):
        before = _TURN.split(plain[max(0, found.start() - _SENTENCE_LENGTH) : found.start()])[-1]
        # The punctuation after the letter may end the sentence.
        behind = _SENTENCE.split(plain[found.end() - 1 : found.end() + _SENTENCE_LENGTH])[0][1:]
        rest = behind.lstrip("\"'\u201d\u2019)]")
        if not (_DOUBT.search(before) or rest.startswith("?") or _CONDITION.match(rest)):
            return found["named"] or found["bare"] or found["marked"] or _read_single(found, behind, letters)
    alone = _compile_patterns(letters).label.fullmatch(plain) if len(plain) < _SENTENCE_LENGTH else None
    return _read_single(alone, "", letters) if alone else ""


def _read_single(found: re.Match[str], rest: str, letters: str) -> str:
    """Return the letter of a match. Returns "" if the text after the match, `rest`, labels another letter as well."""
    letter = next(group for group in found.groups() if group).upper()
    patterns, end = _compile_patterns(letters), found[0][-1:]
    further = patterns.joined.match(rest) if end in ",)];&" or end.isalpha() else None
    others = patterns.other.findall(_REJECTED.sub("", rest))
    listed = re.findall(r"\b[^\W\d_]\b", rest) if patterns.labels.fullmatch(rest) else ()
    named = [*(further[0].strip(" (['\"")[-1:] if further else ""), *others, *listed]
    return "" if any(each.upper() != letter for each in named) else letter


def _remove_marks(text: str) -> str:
    """Remove commands of style, and marks of Markdown and mathematics. Normalize Unicode (NFKC)."""
    return _STYLES.sub("", _SPACES.sub(" ", _WIDE_SPACES.sub(_WIDE, unicodedata.normalize("NFKC", text))))
