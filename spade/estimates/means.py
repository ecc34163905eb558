"""Compute the mean of values and its standard error."""

import math
from collections.abc import Iterable, Sequence


def compute_mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and its standard error s / sqrt(n), where s is the sample standard deviation (divisor n − 1).

    The error is None for fewer than two values.
    """
    n = len(values)
    mean = math.fsum(values) / n
    if n < 2:
        return mean, None
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    return mean, math.sqrt(variance / n)


def compute_clustered_mean(clusters: Iterable[Sequence[float]]) -> tuple[float, float | None]:
    """Return the mean over all values and its cluster-robust standard error, which is None for fewer than two clusters.

    Plays of one environment resemble each other, so they are not independent draws. With C clusters and residuals
    summed within each: SE = sqrt(C / (C − 1) · Σ_c (Σ_i x_ci − mean)²) / n (Liang and Zeger 1986, for a mean).
    """
    groups = [list(cluster) for cluster in clusters if cluster]
    n = sum(len(group) for group in groups)
    mean = math.fsum(value for group in groups for value in group) / n
    count = len(groups)
    if count < 2:
        return mean, None
    squares = math.fsum(math.fsum(value - mean for value in group) ** 2 for group in groups)
    return mean, math.sqrt(count / (count - 1) * squares) / n
