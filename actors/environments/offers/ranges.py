"""Ranges of whole numbers as models write them: `1..20`, `1-20`, `1 to 20`, `between 1 and 20`, `[1, 20]`. Pure."""

import random
import re
from collections.abc import Sequence

MOST = 1_000
"""Most numbers that are taken from one range."""

_BOUNDS = r"(?<![\w.-])(-?\d{1,18})%s(-?\d{1,18})(?![\w-]|\.\d)"
_PLAIN = _BOUNDS % r" ?(?:\.{2,3}|…|-|–|—|\bto\b|\bthrough\b) ?"
_BETWEEN = r"\bbetween " + _BOUNDS % " and "
_INTERVAL = r"\bin \[" + _BOUNDS % ", ?" + r"\]"
_CHAIN = _BOUNDS % r" ?(?:<=?|≤) ?[a-z]{1,10} ?(?:<=?|≤) ?"
RANGE = re.compile("|".join((_BETWEEN, _INTERVAL, _CHAIN, _PLAIN)), re.IGNORECASE)


def numbers(match: re.Match[str], most: int = MOST) -> Sequence[str]:
    """The numbers of a match of RANGE, ascending: at most `most`, spread over the range; none if it runs downwards."""
    low, high = (int(bound) for bound in match.groups() if bound is not None)
    if high - low < most:
        return [str(number) for number in range(low, high + 1)]
    drawn = random.Random(0).sample(range(low, high + 1), most)
    return [str(number) for number in sorted(drawn)]
