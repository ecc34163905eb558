"""The levels of difficulty of a world's programs."""

import random
from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

LEVELS: Final = 6
EVERY: Final = range(1, LEVELS + 1)

SHARES: Final = (0.5, 0.36, 0.125, 0.011, 0.002, 0.002)
"""The share of each level in the games that are written from nothing. The highest ones are nearly always variations."""

PLAIN: Final = 2
"""The highest level at which games state their rule; above it they state two."""

CHANGES: Final = {-1: 0.5, 0: 0.4, 1: 0.1}
"""By the levels that a variation of a game is above its seed, how often it is: by itself a memory sinks."""


class Given(Protocol):
    """The parameters of a program that its world reads."""

    @property
    def level(self) -> int:
        """The difficulty, 1 to LEVELS."""
        ...

    @property
    def budget(self) -> str:
        """The limit of turns, as a Python expression."""
        ...

    @property
    def printed(self) -> bool:
        """The first observation states the rule in plain words."""
        ...


Drawn = TypeVar("Drawn")


def draw_by_level(rng: random.Random, spaces: Sequence[Sequence[Drawn]]) -> Drawn:
    """One of the settings of a level that is drawn first; `spaces` has those of each level."""
    (space,) = rng.choices(spaces, SHARES)
    return rng.choice(space)


def varied_level(rng: random.Random, level: int) -> int:
    """The level of a variation of a game."""
    (change,) = rng.choices(list(CHANGES), list(CHANGES.values()))
    return min(max(level + change, EVERY[0]), LEVELS)
