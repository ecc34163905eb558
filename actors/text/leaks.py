"""Finds values that a hint must not state, because a player has to discover them. Pure."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import accumulate

LEAST = 3  # characters; a shorter value occurs in almost any text
LEAST_DIGITS = 2  # of a number
LEAST_ORDERED = 4  # words of a value that a hint may state with other words between them
LEAST_SPLIT = 4  # characters; only so many may be split by marks, so "1, 2" is not read as 12
_FILLERS = frozenset(
    ("an", "as", "at", "be", "by", "if", "in", "is", "it", "no", "of", "on", "or", "so", "to", "up", "we")
)
"""Short words that stand between the pieces of a value without being one."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_UNSPACED = "\u0e00-\u0eff\u1000-\u11ff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
"""Characters of scripts without spaces between words, or between a name and its particle. Each counts as a word."""
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_WHOLE = re.compile(rf"(?<!\w){_NUMBER.pattern.removeprefix('-?')}(?!\d)")
_INVISIBLE = ("Cf", "Mn")
"""Categories of formatting characters, and of accents that stand on other characters."""
THOUSANDS = re.compile(r"(?<=\d)[,'](?=\d{3}(?!\d))")
"""A mark between the thousands of a number."""


def find_leaked(hint: str, values: Sequence[str]) -> str | None:
    """Return the first of `values` that the hint states, or None."""
    text = SearchableText(hint)
    return next((value for value in values if _is_counted(value) and (text.states(value) or text.lists(value))), None)


def _is_counted(value: str) -> bool:
    if _NUMBER.fullmatch(value):
        return sum(map(str.isdigit, value)) >= LEAST_DIGITS
    return len(value.strip()) >= LEAST


class SearchableText:
    """A text that can be searched for values as whole words. Ignores case and punctuation."""

    def __init__(self, text: str) -> None:
        self._text = normalise_visible(text)
        plain = THOUSANDS.sub("", self._text)
        words = self._all_words = _WORD.findall(plain)
        self._words = JoinedWords(words)
        pieces = [word for word in words if len(word) < LEAST and word not in _FILLERS]
        # A hint may put words between the pieces of a value: "4, then 2, then 7 and 1".
        self._pieces = JoinedWords(pieces), JoinedWords(filter(str.isdigit, pieces))
        numbers = {strip_number(each) for each in _WHOLE.findall(plain)}
        self._numbers = numbers | {each.lstrip("0") for each in numbers}

    def states(self, value: str) -> bool:
        """Return True if the text states the value. A number counts in any form: 1000 also as 1,000 and 01000.0m."""
        value = normalise_visible(value)
        if _NUMBER.fullmatch(value):
            digits = strip_number(value)
            short = digits.lstrip("0")
            split = len(digits) >= LEAST_SPLIT and digits.isdigit()
            stated = digits in self._numbers or (len(short) >= LEAST and short in self._numbers)
            return stated or (split and self._has_pieces(digits))
        sought = "".join(_WORD.findall(value))
        if len(sought) < LEAST:
            return self._has(value.strip())
        return self._words.have(sought) if len(sought) < LEAST_SPLIT else self._has_pieces(sought)

    def lists(self, value: str) -> bool:
        """Return True if the text has the words of a value in this order, perhaps with other words between them.

        The value must have at least LEAST_ORDERED words. Words that the value lacks do not count.
        """
        sought = _WORD.findall(normalise_visible(value))
        found = filter(set(sought).__contains__, self._all_words)
        return len(sought) >= LEAST_ORDERED and JoinedWords(found).have("".join(sought))

    def _has_pieces(self, sought: str) -> bool:
        """Return True if the text has the value as a whole or in pieces, perhaps with words between them."""
        return any(row.have(sought) for row in (self._words, *self._pieces))

    def _has(self, value: str) -> bool:
        """Return True if the text has the value, unless it is part of a word or of a longer row of the same signs."""
        own = "" if _WORD.search(value) else "".join(value.split())
        end = rf"(?:(?![\w{re.escape(own)}])|(?=[.!?](?:\s|\Z)))"
        return bool(value) and re.search(rf"(?<![\w{re.escape(own)}]){re.escape(value)}{end}", self._text) is not None


class JoinedWords:
    """Words in a row, joined to one text."""

    def __init__(self, words: Iterable[str]) -> None:
        words = list(words)
        self._joined = "".join(words)
        self._bounds = {0, *accumulate(map(len, words))}

    def have(self, sought: str) -> bool:
        """Return True if consecutive words, joined, are `sought`."""
        found = self._joined.find(sought)
        while found >= 0:
            if found in self._bounds and found + len(sought) in self._bounds:
                return True
            found = self._joined.find(sought, found + 1)
        return False


def strip_number(text: str) -> str:
    """Return a number without its sign and without zeros at the end of its fraction."""
    return re.sub(r"\.0*\Z|(\.\d*?)0+\Z", r"\1", text.removeprefix("-"))


def normalise_visible(text: str) -> str:
    """Return the text in lower case, without accents and invisible characters.

    Compatibility characters become plain ones: a fullwidth or bold letter becomes the plain letter.
    """
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(each for each in plain if unicodedata.category(each) not in _INVISIBLE)
