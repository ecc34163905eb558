"""Estimate the share of right samples over items, and the mean of several shares.

Samples of one item are alike, so items are counted, not samples: a binomial over all samples would give far too narrow
an interval.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec

from spade.estimates.intervals import Interval, compute_wilson_interval
from spade.estimates.means import compute_mean_and_error


class ItemTally(msgspec.Struct, frozen=True):
    """One item, with at least one sample."""

    samples: int
    """Number of samples."""

    right: int
    """Number of right samples."""

    @property
    def mean(self) -> float:
        """Return the share of right samples."""
        return self.right / self.samples


class Share(msgspec.Struct, frozen=True):
    """pass@1: the mean over items of the mean over samples, with its 95 % interval."""

    mean: float
    """The mean."""

    error: float | None
    """Standard error clustered by item: standard deviation of the items' means / √items. None for one item."""

    low: float
    """Lower end of the interval."""

    high: float
    """Upper end of the interval."""

    items: int
    """Number of items."""

    samples: int
    """Number of samples."""

    @property
    def interval(self) -> Interval:
        """Return the ends of the interval."""
        return Interval(self.low, self.high)


def compute_share(items: Sequence[ItemTally]) -> Share:
    """Return the share over at least one item."""
    samples = sum(item.samples for item in items)
    mean, error = compute_mean_and_error([item.mean for item in items])
    return Share(mean, error, *compute_clustered(mean, error, len(items), samples), len(items), samples)


def compute_average(columns: Sequence[Share]) -> Share:
    """Return the unweighted mean of shares over different items, with a common error and interval.

    If a column has a single item, the column and the mean lack an error. The interval also holds for columns without
    spread: G. Y. Zou and A. Donner, Construction of confidence limits about effect measures, 2008.
    """
    count = len(columns)
    mean = math.fsum(column.mean for column in columns) / count
    errors = [column.error for column in columns if column.error is not None]
    error = math.hypot(*errors) / count if len(errors) == count else None
    low = mean - math.hypot(*(column.mean - column.low for column in columns)) / count
    high = mean + math.hypot(*(column.high - column.mean for column in columns)) / count
    items, samples = sum(each.items for each in columns), sum(each.samples for each in columns)
    return Share(mean, error, max(low, 0.0), min(high, 1.0), items, samples)


def compute_clustered(mean: float, error: float | None, items: int, samples: int) -> Interval:
    """Return Wilson's interval of a mean with this error over items.

    Wilson's interval takes the number of independent draws that would have the same error: p(1 − p) / error², at least
    1 and at most `samples`. If items have means in [0, 1], the number is items − 1 or more. If all samples are right or
    all are wrong, or if `error` is None, the number is `items`.
    """
    draws = float(items)
    if error is not None and 0 < mean < 1:
        draws = min(samples, max(1.0, mean * (1 - mean) / error / error)) if error else samples
    return compute_wilson_interval(mean, draws)


def group_by_category(items: Mapping[str, ItemTally], categories: Mapping[str, str]) -> dict[str, Share]:
    """Return the share of each category, sorted by category. `categories` maps an item's name to its category."""
    members: dict[str, list[ItemTally]] = {}
    for name, tally in items.items():
        members.setdefault(categories[name], []).append(tally)
    return {category: compute_share(members[category]) for category in sorted(members)}
