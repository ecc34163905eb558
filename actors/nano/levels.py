"""The levels of difficulty of a world's programs."""

import random
from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, Protocol, TypeVar

LEVELS: Final = 6
EVERY: Final = range(1, LEVELS + 1)

SHARES: Final = (0.5, 0.36, 0.125, 0.011, 0.002, 0.002)
"""The share of each level among games written from scratch. Games of the highest levels are nearly always
variations."""

_BOUNDS: Final = tuple(accumulate(SHARES))

PLAIN: Final = 2
"""The highest level at which games state their rule. Above it, they state two rules, and one of them holds."""

CHANGES: Final = {-1: 0.5, 0: 0.4, 1: 0.1}
"""Probability of each change of level from a game to its variation. On average the level falls. High levels only last
if the designer's memory selects them as seeds."""


class CommonKnobs(Protocol):
    """The parameters that the programs of every family have."""

    @property
    def level(self) -> int:
        """Return the difficulty, 1 to LEVELS."""
        ...

    @property
    def budget(self) -> str:
        """Return the limit of turns, as a Python expression."""
        ...

    @property
    def printed(self) -> bool:
        """Return True if the first observation states the rule in plain words."""
        ...


Drawn = TypeVar("Drawn")


def draw_by_level(rng: random.Random, spaces: Sequence[Sequence[Drawn]]) -> Drawn:
    """Draw a level, then one of its settings. `spaces` lists the settings of each level.

    Draws the same as `rng.choices(spaces, SHARES)`, in a third of the time: the held-out programs need a million draws.
    """
    return rng.choice(spaces[bisect(_BOUNDS, rng.random() * _BOUNDS[-1], 0, LEVELS - 1)])


def draw_varied_level(rng: random.Random, level: int) -> int:
    """Draw the level of a game's variation."""
    (change,) = rng.choices(list(CHANGES), list(CHANGES.values()))
    return min(max(level + change, EVERY[0]), LEVELS)
