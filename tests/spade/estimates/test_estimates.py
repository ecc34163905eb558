"""Estimates against their closed forms, and the coverage of their intervals by simulation."""

from itertools import combinations
from math import comb, isclose, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade.errors import ConfigError
from spade.estimates import (
    ItemTally,
    compute_all_of,
    compute_any_of,
    compute_average,
    compute_clustered,
    compute_clustered_mean,
    compute_difference,
    compute_mean_and_error,
    compute_share,
    compute_student_quantile,
    compute_wilson_interval,
    group_by_category,
    pass_share,
)

tallies = st.integers(1, 8).flatmap(lambda n: st.builds(ItemTally, st.just(n), st.integers(0, n)))


@pytest.mark.parametrize(
    ("freedom", "quantile"),  # the table of every textbook
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (29, 2.0452), (30, 2.0423), (120, 1.9799)],
)
def test_students_quantiles_are_those_of_the_tables(freedom, quantile):
    assert compute_student_quantile(freedom) == pytest.approx(quantile, abs=5e-5)


def test_students_quantile_falls_to_the_normal_one():
    found = [compute_student_quantile(freedom) for freedom in (1, 2, 5, 50, 500, 5000)]
    assert found == sorted(found, reverse=True)
    assert found[-1] == pytest.approx(1.959964 + (1.959964**3 + 1.959964) / (4 * 5000), abs=1e-6)


def test_wilsons_interval_is_that_of_its_closed_form():
    assert compute_wilson_interval(0.5, 100) == pytest.approx((0.40383, 0.59617), abs=1e-5)
    assert compute_wilson_interval(0.0, 10) == pytest.approx((0.0, 1.959964**2 / (10 + 1.959964**2)), abs=1e-6)
    assert compute_wilson_interval(1.0, 10).high == 1.0


@given(st.floats(0, 1), st.floats(0.5, 1e6))
def test_wilsons_interval_holds_the_share_and_lies_within_0_and_1(p, n):
    low, high = compute_wilson_interval(p, n)
    assert 0 <= low <= p <= high <= 1


@given(tallies, st.data())
def test_passes_are_shares_of_the_subsets(tally, data):
    n, c = tally.samples, tally.right
    k = data.draw(st.integers(1, n))
    subsets = list(combinations([True] * c + [False] * (n - c), k))
    assert isclose(compute_any_of(n, c, k), sum(map(any, subsets)) / comb(n, k))
    assert isclose(compute_all_of(n, c, k), sum(map(all, subsets)) / comb(n, k))


def test_a_pass_of_one_is_the_share_of_right_samples():
    items = [(4, 1), (2, 2), (8, 0)]
    assert pass_share(compute_any_of, items, 1) == pytest.approx((0.25 + 1 + 0) / 3)
    assert pass_share(compute_all_of, items, 1) == pytest.approx((0.25 + 1 + 0) / 3)


@pytest.mark.parametrize("k", [0, 5])
def test_a_pass_of_more_samples_than_there_are_is_refused(k):
    with pytest.raises(ConfigError, match=f"^k = {k}: "):
        compute_any_of(4, 2, k)


def test_a_share_is_the_mean_of_the_items_whatever_their_numbers_of_samples():
    found = compute_share([ItemTally(1, 1), ItemTally(9, 0)])
    assert (found.mean, found.items, found.samples) == (0.5, 2, 10)
    assert found.error == pytest.approx(0.5)


def test_the_error_is_clustered_by_item():
    found = compute_share([ItemTally(32, right) for right in (0, 8, 16, 32)])
    means = [0, 0.25, 0.5, 1]
    assert found.error == pytest.approx(float(np.std(means, ddof=1)) / 2)
    assert found.interval == pytest.approx(
        compute_wilson_interval(found.mean, found.mean * (1 - found.mean) / found.error**2)
    )


@pytest.mark.parametrize("right", [0, 4])
def test_all_or_nothing_is_judged_by_the_number_of_items(right):
    assert compute_share([ItemTally(4, right)] * 5).interval == compute_wilson_interval(right / 4, 5)


def test_items_that_are_all_alike_count_as_their_samples():
    assert compute_share([ItemTally(4, 2)] * 5).interval == compute_wilson_interval(0.5, 20)


def test_one_item_has_no_error_and_counts_once():
    found = compute_share([ItemTally(32, 16)])
    assert found.error is None
    assert found.interval == compute_wilson_interval(0.5, 1)


@given(st.lists(tallies, min_size=1, max_size=20))
def test_a_shares_interval_holds_it(items):
    found = compute_share(items)
    assert 0 <= found.low <= found.mean <= found.high <= 1


def test_categories_are_shares_of_their_items():
    items = {"a": ItemTally(2, 2), "b": ItemTally(2, 0), "c": ItemTally(2, 1)}
    found = group_by_category(items, {"a": "logic", "b": "logic", "c": "algebra"})
    assert list(found) == ["algebra", "logic"]
    assert found["logic"] == compute_share([items["a"], items["b"]])


def test_an_average_weighs_columns_alike_and_takes_their_errors_together():
    columns = [
        compute_share([ItemTally(1, 1), ItemTally(1, 0)]),
        compute_share([ItemTally(1, right) for right in (0, 0, 0, 1)]),
    ]
    found = compute_average(columns)
    assert found.mean == pytest.approx((0.5 + 0.25) / 2)
    assert found.error == pytest.approx(sqrt(columns[0].error ** 2 + columns[1].error ** 2) / 2)
    assert (found.items, found.samples) == (6, 6)


def test_an_average_of_columns_without_a_spread_is_as_wide_as_they_allow():
    solved, failed = compute_share([ItemTally(32, 32)] * 30), compute_share([ItemTally(32, 0)] * 30)
    off = 1 - solved.low
    assert compute_average([solved, failed]).interval == pytest.approx((0.5 - off / 2, 0.5 + off / 2))
    assert compute_average([solved] * 3).interval == pytest.approx((1 - off / sqrt(3), 1.0))
    one = compute_average([compute_share([ItemTally(32, 16)]), solved])
    assert (one.error, one.low < 0.6, one.high > 0.9) == (None, True, True)


def test_a_difference_is_over_the_items_that_both_have():
    found = compute_difference({"a": 1.0, "b": 0.5, "c": 0.0, "new": 1.0}, {"a": 0.0, "b": 0.5, "c": 0.25, "old": 0.0})
    deltas = np.array([1.0, 0.0, -0.25])
    error = deltas.std(ddof=1) / sqrt(3)
    assert (found.mean, found.error) == pytest.approx((deltas.mean(), error))
    assert (found.low, found.high) == pytest.approx((deltas.mean() - 4.30265 * error, deltas.mean() + 4.30265 * error))
    assert (found.items, found.up, found.down) == (3, 1, 1)


def test_a_difference_of_one_item_has_no_interval_and_of_none_is_none():
    found = compute_difference({"a": 1.0}, {"a": 0.0})
    assert (found.mean, found.error, found.low, found.high) == (1.0, None, None, None)
    assert compute_difference({"a": 1.0}, {"b": 1.0}) is None


@pytest.mark.parametrize("items", [2, 30, 200])
@pytest.mark.parametrize(("now", "before"), [(0.5, 0.5), (1.0, 0.0), (0.0, 1.0), (0.75, 0.5)])
def test_items_that_all_differ_alike_leave_room_for_others(items, now, before):
    names = range(items)
    found = compute_difference(dict.fromkeys(names, now), dict.fromkeys(names, before))
    others = compute_wilson_interval(0, items).high  # of 0 of the items
    assert found.error == 0
    assert found.low == pytest.approx((1 - others) * found.mean - others)
    assert found.high == pytest.approx((1 - others) * found.mean + others)
    assert -1 <= found.low <= found.mean <= found.high <= 1


def test_a_spread_of_rounding_alone_is_none():
    thirds = compute_difference({"a": 1.0, "b": 2 / 3, "c": 1 / 3}, {"a": 2 / 3, "b": 1 / 3, "c": 0.0})
    assert thirds.high - thirds.low > 1


@given(st.dictionaries(st.integers(), st.floats(0, 1), min_size=2), st.floats(0, 1))
def test_a_difference_turned_round_changes_its_sign_alone(now, other):
    before = dict.fromkeys(now, other)
    there, back = compute_difference(now, before), compute_difference(before, now)
    assert (there.mean, there.low, there.high) == pytest.approx((-back.mean, -back.high, -back.low))
    assert (there.up, there.down) == (back.down, back.up)


REPLICATES = 1000
SKEWED = "30 very skewed items"
GRID = {  # items, samples of each, the law of an item's chance to be solved
    "30 items, 32 samples": (30, 32, (0.6, 0.6)),
    "30 items, 4 samples": (30, 4, (1.0, 1.0)),
    "198 items, 2 samples": (198, 2, (1.0, 1.0)),
    "50 items of a hard suite": (50, 1, (0.5, 7.0)),
    "200 items, 1 sample": (200, 1, (2.0, 2.0)),
    SKEWED: (30, 32, (0.05, 1.0)),
}


def simulated(items, samples, law):
    """The truth, and the tallies of each replicate."""
    rng = np.random.default_rng(7)
    chances = rng.beta(*law, size=(REPLICATES, items))
    return law[0] / sum(law), rng.binomial(samples, chances)


@pytest.mark.parametrize("case", GRID)
def test_intervals_cover_the_truth_as_often_as_they_claim(case):
    items, samples, law = GRID[case]
    truth, drawn = simulated(items, samples, law)
    found = [compute_share([ItemTally(samples, int(right)) for right in row]) for row in drawn]
    coverage = np.mean([each.low <= truth <= each.high for each in found])
    # Few items, of which hardly any is ever solved, do not tell of those that would be.
    least = 0.80 if case == SKEWED else 0.93
    assert least <= coverage <= 0.97


def test_a_binomial_over_all_samples_claims_far_too_much():
    items, samples, law = GRID["30 items, 32 samples"]
    truth, drawn = simulated(items, samples, law)
    intervals = [compute_wilson_interval(row.sum() / (items * samples), items * samples) for row in drawn]
    assert np.mean([low <= truth <= high for low, high in intervals]) < 0.5


def test_the_interval_of_a_difference_covers_the_truth():
    rng = np.random.default_rng(11)
    before = rng.beta(1, 1, size=(REPLICATES, 30))
    now = np.clip(before + 0.1, 0, 1)
    truth = 0.1 - 0.1**2 / 2  # chances over 0.9 rise to 1 alone
    names = [str(item) for item in range(30)]
    tries = zip(rng.binomial(4, now) / 4, rng.binomial(4, before) / 4, strict=True)
    found = [compute_difference(dict(zip(names, a, strict=True)), dict(zip(names, b, strict=True))) for a, b in tries]
    assert 0.93 <= np.mean([each.low <= truth <= each.high for each in found]) <= 0.97


@pytest.mark.parametrize("risen", [0.01, 0.02, 0.98])
def test_the_interval_of_a_difference_covers_a_truth_that_few_items_show(risen):
    """Student's alone covers it in 0.25, 0.46 and 0.45 of the cases."""
    names = [str(item) for item in range(30)]
    drawn = np.random.default_rng(5).random((REPLICATES, 30)) < risen
    before = dict.fromkeys(names, 0.0)
    found = [compute_difference(dict(zip(names, row.astype(float), strict=True)), before) for row in drawn]
    assert np.mean([each.low <= risen <= each.high for each in found]) >= 0.95


@pytest.mark.parametrize(("mean", "error"), [(0.5, 1e-170), (0.5, 5e-324), (1e-200, 1.0), (1e-320, 1.0)])
def test_an_interval_of_an_error_that_no_sample_has_is_finite(mean, error):
    low, high = compute_clustered(mean, error, 4, 4)
    assert 0 <= low <= mean <= high <= 1


def test_clusters_that_agree_inside_widen_the_error():
    """Ten plays each of two environments, one always won, one never, are two draws and not twenty."""
    split = [[1.0] * 10, [0.0] * 10]
    mixed = [[1.0, 0.0] * 5, [0.0, 1.0] * 5]
    assert compute_clustered_mean(split)[1] == pytest.approx(0.5)
    assert compute_clustered_mean(mixed) == (0.5, 0.0)


@given(st.lists(st.floats(-1, 1, width=16), min_size=2, max_size=30))
def test_clusters_of_one_give_the_ordinary_error(values):
    mean, error = compute_mean_and_error(values)
    clustered, clustered_error = compute_clustered_mean([[value] for value in values])
    assert clustered == pytest.approx(mean, abs=1e-12)
    assert clustered_error == pytest.approx(error, abs=1e-12)
