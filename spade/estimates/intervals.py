"""Intervals of 95 %: Wilson's for a share, Student's for a mean."""

import math
from functools import cache
from statistics import NormalDist
from typing import NamedTuple

Z = NormalDist().inv_cdf(0.975)
_HALVINGS = 60  # enough for an angle under 1.6 to the last bit of a float


class Interval(NamedTuple):
    """The ends of an interval."""

    low: float
    """Lower end."""

    high: float
    """Upper end."""


def compute_wilson_interval(p: float, n: float) -> Interval:
    """Return Wilson's interval of a share `p` of `n` independent draws. `n` is positive and may be a fraction.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference, 1927.
    """
    shrunk = 1 + Z * Z / n
    centre = (p + Z * Z / (2 * n)) / shrunk
    half = Z * math.sqrt(p * (1 - p) / n + (Z / (2 * n)) ** 2) / shrunk
    return Interval(max(0.0, min(p, centre - half)), min(1.0, max(p, centre + half)))


@cache
def compute_student_quantile(freedom: int) -> float:
    """Return the quantile 0.975 of Student's t with `freedom` >= 1 degrees of freedom.

    Found by halving an interval of the angle atan(t / √freedom).
    """
    low, high = 0.0, math.pi / 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _compute_within(middle, freedom) < 0.95 else (low, middle)
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def _compute_within(angle: float, freedom: int) -> float:
    """Return the probability that |t| is under √freedom · tan(angle).

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    total, term = 0.0, cosine if odd else 1.0
    for power in range(odd, freedom - 1, 2):
        total += term
        term *= cosine * cosine * (power + 1) / (power + 2)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
