"""Compare two policies on the same items: the difference between two evaluations."""

import math
from collections.abc import Mapping, Sequence

import msgspec

from spade.estimates.intervals import Interval, compute_student_quantile, compute_wilson_interval
from spade.estimates.means import compute_mean_and_error

_ALIKE = 1e-9  # differences this close differ only by rounding, like 1 − 2/3 and 1/3

Values = Mapping[str, float]
"""The mean of each item, by its name."""


class Difference(msgspec.Struct, frozen=True):
    """The mean of (now − before) over the items that both sides have.

    A single shared item gives no `error`, `low` and `high` (None).
    """

    mean: float
    """Mean over items."""

    error: float | None
    """Standard error of the mean, clustered by item."""

    low: float | None
    """Lower end of Student's 95 % interval with items − 1 degrees of freedom. If all items differ by the same amount,
    `_compute_alike` computes the interval."""

    high: float | None
    """Upper end of this interval."""

    items: int
    """Number of items."""

    up: int
    """Items with a higher mean than before."""

    down: int
    """Items with a lower mean than before."""


def compute_difference(now: Values, before: Values) -> Difference | None:
    """Return the paired difference, or None if the sides do not share an item."""
    deltas = [now[name] - before[name] for name in sorted(now.keys() & before.keys())]
    if not deltas:
        return None
    mean, error = compute_mean_and_error(deltas)
    low, high = (None, None) if error is None else _compute_interval(mean, error, deltas)
    up, down = sum(delta > 0 for delta in deltas), sum(delta < 0 for delta in deltas)
    return Difference(mean, error, low, high, len(deltas), up, down)


def compute_average_difference(columns: Sequence[Difference]) -> Difference:
    """Return the unweighted mean of differences over different items, with a common error and interval.

    The interval is made as in `compute_average`. If a column has a single item, the column and the mean lack an error.
    """
    count = len(columns)
    mean = math.fsum(column.mean for column in columns) / count
    errors = [column.error for column in columns if column.error is not None]
    below = [column.mean - column.low for column in columns if column.low is not None]
    above = [column.high - column.mean for column in columns if column.high is not None]
    whole = len(errors) == len(below) == len(above) == count
    return Difference(
        mean,
        math.hypot(*errors) / count if whole else None,
        mean - math.hypot(*below) / count if whole else None,
        mean + math.hypot(*above) / count if whole else None,
        sum(column.items for column in columns),
        sum(column.up for column in columns),
        sum(column.down for column in columns),
    )


def _compute_interval(mean: float, error: float, deltas: Sequence[float]) -> Interval:
    if max(deltas) - min(deltas) < _ALIKE:
        return _compute_alike(mean, len(deltas))
    half = compute_student_quantile(len(deltas) - 1) * error
    return Interval(mean - half, mean + half)


def _compute_alike(mean: float, items: int) -> Interval:
    """Return the interval if every item differs by `mean`, so that their spread does not measure the error.

    A share of up to u of all items may differ otherwise, by anything from −1 to 1. u is the upper end of Wilson's
    interval of 0 of `items`. This is the score counterpart of the rule of three (J. A. Hanley and A. Lippman-Hand, If
    nothing goes wrong, is everything all right?, 1983).
    """
    share = compute_wilson_interval(0, items).high
    return Interval(mean - share * (1 + mean), mean + share * (1 - mean))
