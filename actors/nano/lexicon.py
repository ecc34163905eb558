"""The made-up words by which the high levels of games state a rule: each family and level has its own."""

import random
from collections.abc import Sequence
from itertools import cycle, product
from typing import Final

from spade.seeds import derive

WORDS: Final = 4
"""Number of words of a family and level."""

VOWELS: Final = "aeiou"


def lexicon(begin: str, middle: str, rules: Sequence[str]) -> dict[str, str]:
    """The words of a level, as "bale", with the rule that each means; rules repeat if they are fewer.

    begin   the consonant of the level
    middle  the consonant of the family; which vowels a word has says nothing
    """
    rng = random.Random(derive(b"", "nano words", begin, middle))
    vowels = rng.sample(list(product(VOWELS, repeat=2)), WORDS)
    return {f"{begin}{one}{middle}{two}": rule for (one, two), rule in zip(vowels, cycle(rules), strict=False)}
