"""Curves by learner step, and the mean of several runs."""

from itertools import pairwise
from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade.app.report.series import LARGEST, Point, average_bins, find_part, pool, thin
from spade.estimates import compute_student_quantile

values = st.floats(-1e6, 1e6)
curves = st.lists(values, min_size=1, max_size=30).map(lambda each: tuple(map(Point, range(len(each)), each)))


def curve(*pairs):
    return tuple(Point(*pair) for pair in pairs)


@given(curves, st.integers(3, 20))
def test_a_thinned_curve_is_short_stays_within_its_values_and_keeps_its_end(whole, most):
    thinned = thin(whole, most)
    assert len(thinned) == min(most, len(whole))
    assert thinned[-1] == whole[-1]
    low, high = min(p.value for p in whole), max(p.value for p in whole)
    assert all(low - 1e-6 <= point.value <= high + 1e-6 for point in thinned)
    assert [p.step for p in thinned] == sorted({p.step for p in thinned})


def test_a_thinned_interval_is_the_mean_of_the_intervals_unless_one_is_missing():
    whole = [Point(0, 1.0, 0.0, 2.0), Point(1, 3.0, 1.0, 5.0), Point(2, 1.0), Point(3, 1.0, 0.5, 1.5), Point(4, 9.0)]
    assert thin(whole, 3) == (Point(0.5, 2.0, 0.5, 3.5), Point(2.5, 1.0), Point(4, 9.0))


def test_a_figure_that_no_run_can_have_is_not_drawn():
    assert thin([Point(1, 10 * LARGEST), Point(2, 0.5), Point(3, 0.5, -float("inf"), 1.0)]) == curve((2, 0.5))
    assert average_bins([(1, float("inf")), (2, 1.0)], 4) == curve((2, 1.0))


def test_the_mean_of_runs_has_students_interval_at_the_steps_that_all_of_them_have():
    pooled = pool([curve((0, 0.2), (2, 0.4), (4, 0.4)), curve((1, 0.5), (2, 0.6), (9, 0.6))])
    assert [point.step for point in pooled] == [1, 2, 4]
    assert [round(point.value, 9) for point in pooled] == [0.4, 0.5, 0.5]
    half = compute_student_quantile(1) * 0.1  # of two values 0.2 apart, the standard error is 0.1
    assert isclose(pooled[1].low, 0.5 - half)
    assert isclose(pooled[1].high, 0.5 + half)


def test_an_interval_ends_where_nothing_can_be_measured():
    [point] = pool([curve((1, 0.1)), curve((1, 0.9))], 0.0, 1.0)
    assert (point.low, point.high) == (0.0, 1.0)


def test_one_run_keeps_its_own_interval_and_no_run_has_no_curve():
    alone = curve((1, 0.5, 0.4, 0.6))
    assert pool([(), alone]) == alone
    assert pool([(), ()]) == ()
    assert pool([curve((1, 0.5)), curve((2, 0.5))]) == ()  # they have no step in common


@given(st.lists(curves, min_size=2, max_size=5), st.randoms())
def test_the_mean_lies_between_its_runs_and_does_not_depend_on_their_order(runs, random):
    pooled = pool(runs)
    for point in pooled:
        at = [run[int(point.step)].value for run in runs]
        assert min(at) - 1e-6 <= point.value <= max(at) + 1e-6
        assert point.low <= point.value <= point.high
    random.shuffle(runs)
    again = pool(runs)
    assert [p.step for p in again] == [p.step for p in pooled]
    assert [p.value for p in again] == pytest.approx([p.value for p in pooled], abs=1e-6)


@given(st.lists(st.tuples(st.integers(0, 1000), values), max_size=50), st.integers(1, 9))
def test_bins_take_every_pair_once(pairs, bins):
    points = average_bins(pairs, bins)
    assert len(points) <= bins
    assert bool(points) == bool(pairs)
    assert all(one.step < other.step for one, other in pairwise(points))


@given(st.integers(1, 10**6), st.integers(1, 30), st.data())
def test_parts_are_equal_and_in_order(span, parts, data):
    offset = data.draw(st.integers(0, span))
    part = find_part(offset, span, parts)
    assert part * span <= offset * parts
    assert offset * parts < (part + 1) * span or part == parts - 1
