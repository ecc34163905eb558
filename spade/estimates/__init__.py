"""Estimates from samples, with their errors and intervals. Pure functions."""

from spade.estimates.intervals import Interval, student, wilson
from spade.estimates.means import mean_and_error
from spade.estimates.paired import Difference, Side, average_difference, difference
from spade.estimates.passes import all_of, any_of, pass_share
from spade.estimates.shares import ItemTally, Share, average, by_category, clustered, share

__all__ = [
    "Difference",
    "Interval",
    "ItemTally",
    "Share",
    "Side",
    "all_of",
    "any_of",
    "average",
    "average_difference",
    "by_category",
    "clustered",
    "difference",
    "mean_and_error",
    "pass_share",
    "share",
    "student",
    "wilson",
]  # fmt: skip
