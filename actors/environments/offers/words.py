"""The words and numbers of an observation, for filling placeholders and for guesses. Pure."""

import re
from collections.abc import Iterable
from functools import cached_property
from itertools import chain, islice

from actors.environments.offers.ranges import RANGE, numbers

MOST_WORDS = 60
MOST_NUMBERS = 60


def vocabulary(words: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(words.split())


_WORD = re.compile(r"[^\W\d][\w'-]{0,30}")
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,18}(?:\.\d{1,6})?(?![\w])")
_QUOTED = re.compile(
    r"\"([^\"\n]{1,40})\"|(?<!\w)'([^'\n]{1,40})'(?!\w)|`([^`\n]{1,40})`|“([^”\n]{1,40})”|\u2018([^\u2019\n]{1,40})\u2019"
)
_PLACE = re.compile(r"<[^<>\n]{1,40}>")
_COMMON = vocabulary(
    "a about after again all also an and any are as at be been before but by can could did do does each end every for "
    "from had has have he her his how i if in into is it its just let may more most must no not now of on once one "
    "only or other our out over own reply she so some such take than that the their them then there these they this "
    "those to turn turns until up us was we were what when where which while who why will with would you your boxed "
    "action actions available valid possible legal allowed choose pick option options command commands move moves "
    "choice choices"
)


class Words:
    """Quotes, words and numbers of an observation, each in the order of first mention, bounded, and found when used."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._text = "\n".join(lines)

    @cached_property
    def quotes(self) -> tuple[str, ...]:
        """The text in quotes or backticks."""
        found = (next(filter(None, match.groups())) for match in _QUOTED.finditer(self._text))
        return unique(found, MOST_WORDS)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """All words except very common ones."""
        found = (match[0].rstrip("'-") for match in _WORD.finditer(_PLACE.sub(" ", self._text)))
        return unique((word for word in found if len(word) > 1 and word.lower() not in _COMMON), MOST_WORDS)

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The numbers of its ranges; without a range, its own numbers and 0 to 9."""
        ranged = (number for match in RANGE.finditer(self._text) for number in numbers(match))
        own = (match[0] for match in _NUMBER.finditer(self._text))
        return unique(ranged, MOST_NUMBERS) or unique(chain(islice(own, MOST_NUMBERS // 2), "0123456789"), MOST_NUMBERS)


def unique(items: Iterable[str], most: int) -> tuple[str, ...]:
    """The first `most` different items, in their order."""
    seen = dict[str, None]()
    for item in items:
        seen[item] = None
        if len(seen) == most:
            break
    return tuple(seen)
