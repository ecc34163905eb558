"""The actions that an observation offers, read in the spellings that models use. Pure.

An offered action is written as a player would send it: the inside of a box, without quotes. Observations are hostile:
of a long one only both ends are read, and actions are bounded in number and length.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from actors.environments.offers.items import LONGEST, actions
from actors.environments.offers.labels import labelled, told
from actors.environments.offers.words import Words, unique

__all__ = ["LONGEST", "MOST", "STRAY", "Offer", "choose", "offered"]

MOST = 1_000
"""Most actions of an offer."""
_END_CHARACTERS = 8_192
_LINE_CHARACTERS = 4_096
_ALWAYS = ("0", "1", "2", "yes", "no")
STRAY = 0.25
"""The share of guesses among the actions taken from prose, which may be misread."""


@dataclass(frozen=True)
class Offer:
    """The actions that an observation offers, at least one.

    kind     their source: a list; prose that asks for one of them; or guesses, since nothing can be read
    guesses  other possible actions if there is no list: words and numbers of the observation, and a few more
    """

    actions: Sequence[str]
    kind: Literal["listed", "told", "guessed"]
    guesses: Sequence[str]

    @property
    def readable(self) -> bool:
        """True if the actions are not guessed."""
        return self.kind != "guessed"


def offered(observation: str) -> Offer:
    """The actions that an observation offers."""
    lines = _lines(observation)
    words = Words(lines)
    listed = _actions(labelled, lines, words)
    if listed:
        return Offer(listed, "listed", ())
    named = filter(str.isprintable, chain(words.quotes, words.words, words.numbers, _ALWAYS))
    guesses = unique(map(str.strip, filter(str.strip, named)), MOST)
    prose = _actions(told, lines, words)
    if len(prose) > 1:
        return Offer(prose, "told", guesses)
    return Offer(guesses, "guessed", guesses)


def choose(observation: str, rng: random.Random, known: Sequence[str] = ()) -> str:
    """A random action that the observation offers; if it must be guessed, from the `known` ones as well."""
    offer = offered(observation)
    if offer.kind == "guessed" or (offer.kind == "told" and rng.random() < STRAY):
        return rng.choice((*offer.guesses, *known))
    return rng.choice(offer.actions)


def _actions(find: Callable[[Sequence[str]], list[str]], lines: Sequence[str], words: Words) -> Sequence[str]:
    return unique(chain.from_iterable(actions(item, words) for item in find(lines)), MOST)


def _lines(observation: str) -> list[str]:
    """The lines at both ends of an observation, with single spaces between words."""
    if len(observation) > 2 * _END_CHARACTERS:
        observation = f"{observation[:_END_CHARACTERS]}\n{observation[-_END_CHARACTERS:]}"
    return [" ".join(line[:_LINE_CHARACTERS].split()) for line in observation.splitlines()]
