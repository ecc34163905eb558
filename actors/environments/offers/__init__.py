"""Find the actions that an observation offers. Pure.

The designer's prompt prescribes one exact form (FORM). A list in this form is read literally. Any other list is
uncertain. It is read in several ways, and random play draws from all readings. Observations may be hostile, so this
module bounds the size of what it reads.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from actors.environments.offers.readings import filter_sendable, find_readings
from actors.environments.offers.words import Words, choose_numbers

__all__ = [
    "FORM",
    "LIST_CHARACTERS",
    "MOST",
    "MOST_MISSED",
    "Offer",
    "choose",
    "has_list",
    "has_long_list",
    "read_offer",
]

FORM = "`Actions: look take open`, `Actions: 1..20` or, with spaces in an action, `Actions: go north | wait`"
"""The exact form of a list, as the designer's prompt describes it."""
MOST = 1_000
"""From the ranges of a list, at most this many numbers are read. Each `draw` takes other numbers."""
MOST_MISSED = 0.5
"""With an exact list, the largest share of random actions that do not come from the list."""
GUESSED = 0.25
"""The share of random actions that are words and numbers of the observation, if its list is in another form."""
_END_CHARACTERS = 8_192
_LINE_CHARACTERS = 4_096
LIST_CHARACTERS = 2 * _END_CHARACTERS
"""The longest list that is read. Admission rejects a game with a longer one."""
_ALWAYS = ("0", "1", "2", "yes", "no")

_LINE = re.compile(r"^(?:.*[.!?:)\]] |[ \t]*)Actions:[ \t]*(.*)$", re.MULTILINE)
_WHOLE = r"0|-?[1-9][0-9]{0,17}"
_RANGE = re.compile(rf"({_WHOLE})\.\.({_WHOLE})")
_LOOSE = re.compile(
    r"""["'`“\u2018«].+|\*\*[^*].*|.*[^,;][,;]|.*<[A-Za-z][^<>]*>.*|.*[b\x08]oxed\{.*|.*\d\.\..*|.*\w\.\.\w.*"""
)
"""An item that breaks the form: in quotes, bold or a box, with a comma at its end, a placeholder, or a bad range."""
_JOINED = re.compile(r".+[/,\uff0c、].+|-?\d+[-–—…]\d+")
"""A list with a single item, which may be several items in another form: `go/look`, `1-20`."""
_PARTED = re.compile(r"\d +(?:\.{2,3}|[-–—…]) +-?\d|^[^\W\d]\w* +-?\d+\.\.-?\d+$|\w +/ +\w")
"""A text without bars that may be one item, or several items with spaces or a slash between them: `1 .. 20`,
`guess 1..20`, `go in / go out`."""
_SLASHED = re.compile(r"[^|]*[^\W\d] +/ +[^\W\d]")
"""The beginning of a text with bars, if a slash may part its first item: `go in / go out | wait`."""


@dataclass(frozen=True)
class Offer:
    """The actions that an observation offers, at least one."""

    kind: Literal["listed", "uncertain", "guessed"]
    """The source of the actions: a list in the exact form, a list in another form, or the words of the text."""
    readings: Sequence[Sequence[str]]
    """The actions of each reading. A list in the exact form has one reading. Otherwise there may be several readings,
    and the last one consists of guesses: words and numbers of the observation."""
    words: Words
    """The words and numbers of the observation. They replace the placeholders (`<item>`) of listed actions."""
    ranges: Sequence[range] = ()
    """The ranges of a list in the exact form. A reading has only some numbers of a long range."""
    spaced: str = ""
    """The text of a list in the exact form with words between spaces. Empty if bars separate the actions."""

    def has(self, action: str) -> bool:
        """Return True if a reading or a range has the action."""
        whole = re.fullmatch(_WHOLE, action)
        ranged = whole is not None and any(int(action) in each for each in self.ranges)
        return ranged or any(action in reading for reading in self.readings)

    @property
    def actions(self) -> tuple[str, ...]:
        """The actions of all readings."""
        return tuple(dict.fromkeys(action for reading in self.readings for action in reading))


def read_offer(observation: str, draw: int = 0) -> Offer:
    """Read the actions that an observation offers. If there are too many numbers or guesses, `draw` chooses some.

    If a program knew the draw, it could work out which actions are read. So random play needs a secret draw for each
    observation.
    """
    listed = _find_list(observation)
    if len(observation) > 2 * _END_CHARACTERS:
        observation = f"{observation[:_END_CHARACTERS]}\n{observation[-_END_CHARACTERS:]}"
    words = Words(observation, draw)
    exact, ranges = _read_exact(listed, draw)
    if exact:
        return Offer("listed", (exact,), words, ranges, "" if "|" in listed else listed)
    guesses = filter_sendable((*words.quotes, *words.words, *words.numbers, *_ALWAYS), draw)
    lines = [" ".join(line[:_LINE_CHARACTERS].split()) for line in observation.splitlines()]
    found = find_readings(lines, listed, draw) if len(listed) <= LIST_CHARACTERS else []
    if _is_joined(listed.split()):
        found = [listed.split(), *found]
    return Offer("uncertain" if found else "guessed", (*found, guesses), words)


def has_list(observation: str) -> bool:
    """Return True if an observation has a text after the label `Actions:`."""
    return bool(_find_list(observation).strip())


def has_long_list(observation: str) -> bool:
    """Return True if the list of an observation is too long to be read."""
    return len(observation) > LIST_CHARACTERS and len(_find_list(observation)) > LIST_CHARACTERS


def _find_list(observation: str) -> str:
    """Return the text after the last label `Actions:`, or "" without one."""
    lists = _LINE.findall(observation)
    return lists[-1] if lists else ""


def _read_exact(text: str, draw: int) -> tuple[tuple[str, ...], tuple[range, ...]]:
    """Return the actions and the ranges of a list in the exact form. Both are empty if the list is in another form.

    All words of the list are read, so that a program cannot hide an action after repetitions, after junk, or by its
    length.
    """
    if len(text) > LIST_CHARACTERS:
        return (), ()
    phrases = "|" in text
    text = text.strip().removeprefix("| ").removesuffix(" |").strip()
    items = [item.strip() for item in text.split(" | ")] if phrases else text.split()
    comment = not phrases and any(len(item) > 1 and item.count("(") != item.count(")") for item in items)
    stopped = [len(item) > 1 and item.endswith(".") for item in items]
    slashed = phrases and len(items) > 1 and _SLASHED.match(text)
    parted = slashed or (not phrases and (_PARTED.search(text) or _is_joined(items)))
    barred = any("|" in item for item in items)
    if parted or barred or comment or (any(stopped) and not all(stopped)):
        return (), ()
    found = {item: _RANGE.fullmatch(item) for item in items}
    ranges = {item: range(int(each[1]), int(each[2]) + 1) for item, each in found.items() if each}
    if not all(ranges.values()) or not all(item and (item in ranges or not _LOOSE.fullmatch(item)) for item in found):
        return (), ()
    most = max(1, (MOST + len(ranges) - len(found)) // max(1, len(ranges)))
    actions = (choose_numbers(ranges[item], most, draw) if item in ranges else (item,) for item in found)
    return tuple(dict.fromkeys(chain.from_iterable(actions))), tuple(ranges.values())


def _is_joined(items: Sequence[str]) -> bool:
    """Return True if a list has a single word, which may join several actions."""
    return len(items) == 1 and _JOINED.fullmatch(items[0]) is not None


def choose(observation: str, rng: random.Random, known: Sequence[str] = (), missed: Sequence[str] = ()) -> str:
    """Draw a random action that the observation offers.

    `known` are actions that the program's solution or agents sent. `missed` are the known actions that the observation
    did not offer when they were sent. An exact list may be incomplete, so with the probability missed / known (at most
    MOST_MISSED) a missed action is drawn instead. Words of a list that are a known action together are drawn as one
    action (`_join_known`). If a missed action has as many words as an exact list, all words of the list are drawn as
    one action in its place: a game may list one action without the bars that it needs.

    Without an exact list, the known actions are one more reading. If some readings contain a known action, the readings
    without one are dropped.
    """
    offer = read_offer(observation, rng.getrandbits(64))
    if offer.kind == "listed":
        missed_share = min(MOST_MISSED, len(missed) / len(known)) if known else 0.0
        words = offer.spaced.split()
        unlisted = [" ".join(words) if 1 < len(words) == len(each.split()) else each for each in missed]
        return rng.choice(unlisted if rng.random() < missed_share else rng.choice(_join_known(offer, known)))
    *readings, guesses = offer.readings
    fitting = [reading for reading in readings if not set(known).isdisjoint(reading)]
    pools = [*(fitting or readings), *([known] if known else [])]
    guessed = not fitting and (not pools or rng.random() < GUESSED)
    return offer.words.filled(rng.choice(guesses if guessed else rng.choice(pools)), rng)


def _join_known(offer: Offer, known: Sequence[str]) -> Sequence[Sequence[str]]:
    """Return the readings of an exact list: its words, or known actions of several words together with the other words.

    Returns both if a word of such an action is a known action too. A solution that sends `red blue` in vain must not
    hide `red` and `blue`.
    """
    (words,) = offer.readings
    left = _space_widely(offer.spaced)
    phrases = [action for action in dict.fromkeys(known) if " " in action and _space_widely(action) in left]
    if not phrases:
        return (words,)
    for phrase in phrases:
        left = left.replace(_space_widely(phrase), "")
    parts = {word for phrase in phrases for word in phrase.split()}.difference(left.split())
    joined = (*phrases, *(word for word in words if word not in parts))
    return (joined,) if parts.isdisjoint(known) else (words, joined)


def _space_widely(text: str) -> str:
    """Return the words of a text with a space on each side of each word, so that neighbours do not share a space."""
    return "".join(f" {word} " for word in text.split())
