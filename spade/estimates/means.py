"""Compute the mean of values and its standard error."""

import math
from collections.abc import Sequence


def compute_mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and its standard error s / sqrt(n), s with n − 1.

    Fewer than two values give no error (None).
    """
    n = len(values)
    mean = math.fsum(values) / n
    if n < 2:
        return mean, None
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    return mean, math.sqrt(variance / n)
