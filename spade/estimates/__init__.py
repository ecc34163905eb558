"""Estimates from samples, with their errors and intervals. Pure functions."""

from spade.estimates.intervals import Interval, compute_student_quantile, compute_wilson_interval
from spade.estimates.means import compute_clustered_mean, compute_mean_and_error
from spade.estimates.paired import Difference, Values, compute_average_difference, compute_difference
from spade.estimates.passes import compute_all_of, compute_any_of, pass_share
from spade.estimates.shares import (
    ItemTally,
    Share,
    compute_average,
    compute_clustered,
    compute_share,
    group_by_category,
)

__all__ = [
    "Difference",
    "Interval",
    "ItemTally",
    "Share",
    "Values",
    "compute_all_of",
    "compute_any_of",
    "compute_average",
    "compute_average_difference",
    "compute_clustered",
    "compute_clustered_mean",
    "compute_difference",
    "compute_mean_and_error",
    "compute_share",
    "compute_student_quantile",
    "compute_wilson_interval",
    "group_by_category",
    "pass_share",
]  # fmt: skip
