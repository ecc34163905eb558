"""The difference of two policies on the same items: what one evaluation can tell of another."""

from collections.abc import Mapping

import msgspec

from spade.estimates.intervals import student
from spade.estimates.means import mean_and_error

Side = Mapping[str, float]
"""The mean of each item, by its name."""


class Difference(msgspec.Struct, frozen=True):
    """The mean over items of (now − before), over the items that both have.

    error      its standard error, clustered by item
    low, high  Student's interval of 95 % with items − 1 degrees; with `error` None where there is one item
    up, down   items whose mean rose, and fell
    """

    mean: float
    error: float | None
    low: float | None
    high: float | None
    items: int
    up: int
    down: int


def difference(now: Side, before: Side) -> Difference | None:
    """The paired difference; None where no item is on both sides."""
    deltas = [now[name] - before[name] for name in sorted(now.keys() & before.keys())]
    if not deltas:
        return None
    mean, error = mean_and_error(deltas)
    half = None if error is None else student(len(deltas) - 1) * error
    low, high = (None, None) if half is None else (mean - half, mean + half)
    up, down = sum(delta > 0 for delta in deltas), sum(delta < 0 for delta in deltas)
    return Difference(mean, error, low, high, len(deltas), up, down)
