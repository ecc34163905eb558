"""The share of right samples over items, and of several shares: what one column of a table says.

Samples of an item are alike, so the items are what is counted: a binomial over all samples would claim far too much.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec

from spade.estimates.intervals import Interval, wilson
from spade.estimates.means import mean_and_error


class ItemTally(msgspec.Struct, frozen=True):
    """One item: its samples, of which `right` are right; samples >= 1."""

    samples: int
    right: int

    @property
    def mean(self) -> float:
        """The share of right ones."""
        return self.right / self.samples


class Share(msgspec.Struct, frozen=True):
    """pass@1: the mean over items of the mean over samples, with its 95 % interval.

    error  the standard error, clustered by item: the deviation of the items' means / √items; None of one item
    """

    mean: float
    error: float | None
    low: float
    high: float
    items: int
    samples: int

    @property
    def interval(self) -> Interval:
        """Its ends."""
        return Interval(self.low, self.high)


def share(items: Sequence[ItemTally]) -> Share:
    """The share of at least one item."""
    samples = sum(item.samples for item in items)
    mean, error = mean_and_error([item.mean for item in items])
    return Share(mean, error, *clustered(mean, error, len(items), samples), len(items), samples)


def average(columns: Sequence[Share]) -> Share:
    """The unweighted mean of shares over different items; its error is made of theirs, and its interval of theirs.

    A column of one item has no error, so the mean has none. The interval holds where columns have no spread too:
    G. Y. Zou and A. Donner, Construction of confidence limits about effect measures, 2008.
    """
    count = len(columns)
    mean = math.fsum(column.mean for column in columns) / count
    errors = [column.error for column in columns if column.error is not None]
    error = math.hypot(*errors) / count if len(errors) == count else None
    low = mean - math.hypot(*(column.mean - column.low for column in columns)) / count
    high = mean + math.hypot(*(column.high - column.mean for column in columns)) / count
    items, samples = sum(each.items for each in columns), sum(each.samples for each in columns)
    return Share(mean, error, max(low, 0.0), min(high, 1.0), items, samples)


def clustered(mean: float, error: float | None, items: int, samples: int) -> Interval:
    """Wilson's interval of a mean with this error over items, at the number of independent draws that have it.

    That is p(1 − p) / error², at least 1 and at most `samples`; means in [0, 1] leave it at items − 1 or more. The
    error is no guide where all are right or all are wrong, or where there is none: then it is `items`.
    """
    draws = float(items)
    if error is not None and 0 < mean < 1:
        draws = min(samples, max(1.0, mean * (1 - mean) / error / error)) if error else samples
    return wilson(mean, draws)


def by_category(items: Mapping[str, ItemTally], categories: Mapping[str, str]) -> dict[str, Share]:
    """The share of each category, in the order of their names; an item's category is that of its name."""
    members: dict[str, list[ItemTally]] = {}
    for name, tally in items.items():
        members.setdefault(categories[name], []).append(tally)
    return {category: share(members[category]) for category in sorted(members)}
