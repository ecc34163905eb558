"""Curves by learner step: thinned, and pooled over the runs of an arm. Pure."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import fsum
from typing import NamedTuple

import numpy as np

from spade.estimates import compute_mean_and_error, compute_student_quantile

MOST_POINTS = 160
"""Most points of a drawn curve. On a phone the eye sees no more."""
LARGEST = 1e30
"""A larger value cannot be a figure and is not drawn."""


class Point(NamedTuple):
    """A value at a learner step."""

    step: float
    """The learner step."""

    value: float
    """The value."""

    low: float | None = None
    """The lower end of the 95 % interval, if known."""

    high: float | None = None
    """The upper end of the 95 % interval, if known."""


Curve = tuple[Point, ...]


def thin(curve: Sequence[Point], most: int = MOST_POINTS) -> Curve:
    """Return at most `most` points: means of neighbours, and the last point unchanged. Drops points over LARGEST.

    The ends of intervals are averaged too. The mean of neighbours is not more certain, because their windows overlap.
    """
    curve = [point for point in curve if all(end is None or abs(end) <= LARGEST for end in point)]
    if len(curve) <= most:
        return tuple(curve)
    edges = [index * (len(curve) - 1) // (most - 1) for index in range(most)]
    return (*(_compute_mean_point(curve[start:end]) for start, end in pairwise(edges)), curve[-1])


def pool(curves: Sequence[Curve], low: float | None = None, high: float | None = None) -> Curve:
    """Return the mean over runs with Student's interval of 95 %, over the steps that all runs have.

    Between its points, a run is interpolated linearly. `low` and `high` bound the possible values. A single curve is
    returned unchanged.
    """
    known = [curve for curve in curves if curve]
    if len(known) < 2:
        return known[0] if known else ()
    first, last = max(curve[0].step for curve in known), min(curve[-1].step for curve in known)
    steps = sorted({point.step for curve in known for point in curve if first <= point.step <= last})
    values = [
        np.interp(steps, [point.step for point in curve], [point.value for point in curve]).tolist() for curve in known
    ]
    return tuple(_pool_point(step, each, (low, high)) for step, *each in zip(steps, *values, strict=True))


def average_bins(pairs: Iterable[tuple[float, float]], bins: int) -> Curve:
    """Divide (step, value) pairs into `bins` equal parts of their steps.

    Returns the mean of each part with Student's interval. Empty parts get no point. A point's step is the mean step of
    its pairs.
    """
    found = sorted((step, value) for step, value in pairs if abs(value) <= LARGEST)
    if not found:
        return ()
    first, span = found[0][0], found[-1][0] - found[0][0]
    parts: dict[int, list[tuple[float, float]]] = {}
    for step, value in found:
        parts.setdefault(find_part(step - first, span, bins), []).append((step, value))
    return tuple(
        _pool_point(fsum(step for step, _ in part) / len(part), [value for _, value in part], (None, None))
        for _, part in sorted(parts.items())
    )


def find_part(offset: float, span: float, parts: int) -> int:
    """Divide `span` into `parts` equal parts. Return the number of the part, from 0, that contains `offset`.

    The end of `span` belongs to the last part.
    """
    return min(int(offset * parts / span), parts - 1) if span > 0 else 0


def _pool_point(step: float, values: Sequence[float], bounds: tuple[float | None, float | None]) -> Point:
    mean, error = compute_mean_and_error(values)
    if error is None:
        return Point(step, mean)
    half = compute_student_quantile(len(values) - 1) * error
    least, most = bounds
    low = mean - half if least is None else max(mean - half, least)
    high = mean + half if most is None else min(mean + half, most)
    return Point(step, mean, low, high)


def _compute_mean_point(points: Sequence[Point]) -> Point:
    lows = [point.low for point in points if point.low is not None]
    highs = [point.high for point in points if point.high is not None]
    whole = len(lows) == len(highs) == len(points)
    return Point(
        _compute_average([point.step for point in points]),
        _compute_average([point.value for point in points]),
        _compute_average(lows) if whole else None,
        _compute_average(highs) if whole else None,
    )


def _compute_average(values: Sequence[float]) -> float:
    return fsum(values) / len(values)
