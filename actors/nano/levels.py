"""The levels of difficulty of a world's programs."""

import random
from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

LEVELS: Final = 6
EVERY: Final = range(1, LEVELS + 1)

SHARES: Final = (0.42, 0.29, 0.16, 0.09, 0.03, 0.01)
"""The share of each level in the demonstrations of games: its first policy wins the low ones, and the high ones hardly.
"""


PRINTED: Final = (True, True, False, False, False, False)
"""By level, if the programs of games print their rule: low levels ask to follow it. In high ones each instance draws a
rule of its own, which has to be found.
"""


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
    def printed(self) -> bool: ...


Drawn = TypeVar("Drawn")


def draw_by_level(rng: random.Random, spaces: Sequence[Sequence[Drawn]]) -> Drawn:
    """One of the settings of a level that is drawn first; `spaces` has those of each level."""
    (space,) = rng.choices(spaces, SHARES)
    return rng.choice(space)
