"""Find the words and numbers of an observation, for guesses and to replace placeholders. Pure."""

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

MOST_WORDS = 60
MOST_NUMBERS = 60
MOST_RANGES = 20
"""The largest number of ranges of one kind that are read in a text."""
_STEPS = 21
"""Number of values drawn from a range of decimal numbers."""

_BOUNDS = r"(?<![\w.-])(-?\d{1,18})%s(-?\d{1,18})(?![\w-]|\.\d)"
RANGE = re.compile(
    "|".join(_BOUNDS % gap for gap in (r" ?(?:\.{2,3}|…|-|–|—|to|through) ?", " and (?:including )?"))
    + r"|[\[(](-?\d{1,18}), ?(-?\d{1,18})[\])]",
    re.IGNORECASE,
)
"""A range of whole numbers in prose: `1-20`, `1 to 20`, `between 1 and 20`, `[1, 20]`."""
SPREAD = re.compile(
    r"(?<![\w.-])(?:(-?\d{1,9}(?:\.\d{1,6})?)(?:\.\.| to )(-?\d{1,9}\.\d{1,6})"
    r"|([A-Za-z])(\d?)\.\.([A-Za-z])(\d?))(?![\w.])"
)
"""A range of decimal numbers, letters, or places on a board: `0.5..2.5`, `a..f`, `A1..H8`."""
_COMMAND = re.compile(
    r"(?<!\w)(?!(?:a|an|any|between|from|in|integers?|numbers?|of|or|to|values?)\b)([^\W\d]\w* ?[:=(]? ?)"
    r"(-?\d{1,18})(?:\.{2,3}|[…–])(-?\d{1,18})(\)?)(?![\w.-])"
)
"""A verb with a range of whole numbers: `guess 1..100`, `guess:1..100`, `guess(1..100)`."""
PLACE = re.compile(r"<([^<>\n]{1,40})>|\{(\w[\w ]{0,40})\}|(?<=[(,])([A-Za-z]\w*)(?=[,)])|(?<=[a-z] )([NXYKnxyk])\b")
"""A placeholder in an action: `<item>`, `{item}`, `guess(word)`, `buy N`."""
_WORD = re.compile(r"[^\W\d][\w'-]{0,30}")
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,18}(?:\.\d{1,6})?(?![\w])")
MARKED = re.compile(
    # Python reads `\b` in an ordinary string as a control character, so many boxes begin with that character.
    r"(?:\\+b|\x08)oxed ?\{([^{}\n]{1,80})\}|\"([^\"\n]{1,80})\"|(?<!\w)'([^'\n]{1,80})'(?!\w)|`([^`\n]{1,80})`"
    r"|“([^”\n]{1,80})”|\u2018([^\u2019\n]{1,80})\u2019|«([^»\n]{1,80})»|\*\*([^*\n]{1,80})\*\*"
)
"""Text in a box, in quotes, backticks or bold."""
_COMMON = (
    " a about after again all also an and any are as at be been before but by can could did do does each end every for "
    "from had has have he her his how i if in into is it its just let may more most must no not now of on once one "
    "only or other our out over own reply she so some such take than that the their them then there these they this "
    "those to turn turns until up us was we were what when where which while who why will with would you your boxed "
    "action actions available valid possible legal allowed choose pick option options command commands move moves "
    "choice choices "
)


class Words:
    """The quotes, words and numbers of a text, each in the order of first mention.

    Of each kind, only a bounded number is kept. If there are more, the random seed `draw` decides which are kept.
    """

    def __init__(self, text: str, draw: int = 0) -> None:
        self._text = text
        self._draw = draw

    @cached_property
    def quotes(self) -> tuple[str, ...]:
        """The text in marks: quotes, backticks, bold and boxes."""
        return choose_some(filter(None, map(read_marked, MARKED.finditer(self._text))), MOST_WORDS, self._draw)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """All words except very common ones."""
        found = (match[0].rstrip("'-") for match in _WORD.finditer(PLACE.sub(" ", self._text)))
        uncommon = (word for word in found if len(word) > 1 and f" {word.lower()} " not in _COMMON)
        return choose_some(uncommon, MOST_WORDS, self._draw)

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The numbers in the ranges of the text. If the text has no range: numbers of the text, and 0 to 9."""
        ranges = choose_some(expand_ranges(self._text, MOST_NUMBERS, self._draw), MOST_NUMBERS, self._draw)
        own = choose_some((match[0] for match in _NUMBER.finditer(self._text)), MOST_NUMBERS // 2, self._draw)
        return ranges or tuple(dict.fromkeys((*own, *"0123456789")))

    def filled(self, action: str, rng: random.Random) -> str:
        """Replace each placeholder of an action by a random value. Sometimes keep it, since it may be literal text."""

        def value(place: re.Match[str]) -> str:
            name = next(filter(None, place.groups()))
            either = re.split(r" ?[|/,] ?| or ", name)
            numbers = tuple(expand_ranges(name, MOST_NUMBERS, self._draw)) or self.numbers
            pools = (either,) if len(either) > 1 else (numbers, self.words or numbers, (place[0],))
            return rng.choice(rng.choice(pools))

        return PLACE.sub(value, action)


def read_marked(mark: re.Match[str]) -> str:
    """Return the text inside a match of MARKED."""
    inside: str = next(filter(None, mark.groups()))
    return inside.strip()


def expand_ranges(text: str, most: int, draw: int) -> Iterator[str]:
    """Yield the numbers of the ranges in a text, at most `most` of each."""
    for match in _find_matches(RANGE, text, draw):
        low, high = (int(bound) for bound in match.groups() if bound is not None)
        yield from choose_numbers(range(low, high + 1), most, draw)


def spread(text: str, draw: int) -> Iterator[str]:
    """Yield values of the ranges of decimal numbers, letters and places in a text."""
    for match in _find_matches(SPREAD, text, draw):
        low, high, first, top, last, bottom = match.groups()
        if low is not None:
            digits = 1 + max(len(bound.partition(".")[2]) for bound in (low, high))
            step = (float(high) - float(low)) / (_STEPS - 1)
            yield from (f"{float(low) + step * at:.{digits}f}" for at in range(_STEPS))
        else:
            letters = [chr(code) for code in range(ord(first), ord(last) + 1)]
            digits_of = range(int(top), int(bottom) + 1) if top and bottom else [""]
            yield from (f"{letter}{digit}" for letter in letters for digit in digits_of)


def draw_decimals(text: str, draw: int) -> Iterator[str]:
    """Yield random values of the ranges of decimal numbers in a text, with as many digits as a range has."""
    rng = random.Random(draw)
    for low, high, *_ in (match.groups() for match in _find_matches(SPREAD, text, draw)):
        if low is not None:
            digits = max(len(bound.partition(".")[2]) for bound in (low, high))
            yield from (f"{rng.uniform(float(low), float(high)):.{digits}f}" for _ in range(_STEPS))


def expand_commands(text: str, most: int, draw: int) -> Iterator[str]:
    """Yield each verb that stands before a range in a text, together with each number of the range."""
    for match in _find_matches(_COMMAND, text, draw):
        verb, low, high, end = match.groups()
        yield from (f"{verb}{number}{end}" for number in choose_numbers(range(int(low), int(high) + 1), most, draw))


def _find_matches(pattern: re.Pattern[str], text: str, draw: int) -> Iterator[re.Match[str]]:
    """Find the different matches of a pattern in a text, at most MOST_RANGES of them."""
    found = {match[0]: match for match in pattern.finditer(text)}
    return (found[each] for each in choose_some(found, MOST_RANGES, draw))


def choose_numbers(of: range, most: int, draw: int) -> Sequence[str]:
    """Return the numbers of a range, ascending. If there are more than `most`, `draw` chooses `most` of them."""
    return list(map(str, of if len(of) <= most else sorted(random.Random(draw).sample(of, most))))


def choose_some(items: Iterable[str], most: int, draw: int) -> tuple[str, ...]:
    """Return at most `most` of the different items, in their order.

    `draw` decides which, so that a program cannot hide an item by its place.
    """
    different = tuple(dict.fromkeys(items))
    if len(different) <= most:
        return different
    places = random.Random(draw + len(different)).sample(range(len(different)), most)
    return tuple(different[place] for place in sorted(places))
