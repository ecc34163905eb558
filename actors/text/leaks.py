"""Values that a hint may not state, since a player has to find them out. Pure."""

import re
from collections.abc import Sequence

LEAST = 3  # characters, else anything would hold it
LEAST_DIGITS = 2  # of a number
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def leaked(hint: str, values: Sequence[str]) -> str | None:
    """The first of `values` that stands in the hint as a word of its own, whatever its case; None if there is none."""
    return next((value for value in values if _counts(value) and _stands(value, hint)), None)


def _counts(value: str) -> bool:
    if _NUMBER.fullmatch(value):
        return sum(map(str.isdigit, value)) >= LEAST_DIGITS
    return len(value.strip()) >= LEAST


def _stands(value: str, hint: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value.strip())}(?!\w)", hint, re.IGNORECASE) is not None
