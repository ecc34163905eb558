"""Regret, anchor and the designer's reward."""

import math
from random import Random
from typing import get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.ledger.reward import (
    KINDS,
    Bounds,
    WindowFigures,
    compute_anchor,
    compute_paired_regret,
    is_learnable,
    normalise_regret,
    regret_and_anchor,
    shrink_regret,
)
from spade.config import Reward

RETURNS = st.floats(-1, 1, width=16)
PAPER = Reward()


def measured(regret, win_rate, mean=0.0, slow=None, similarity=None):
    return WindowFigures(regret, Bounds(win_rate, win_rate), Bounds(mean, mean), slow, similarity)


def test_regret_is_the_mean_paired_difference_with_its_standard_error():
    regret = compute_paired_regret([(0.0, 1.0), (1.0, 1.0), (0.0, 0.0), (0.0, 1.0)])
    assert regret.mean == 0.5
    # differences 1 0 0 1: s² = 1/3, error = sqrt(1/3/4)
    assert regret.error == pytest.approx(math.sqrt(1 / 12))
    assert regret.pairs == 4


def test_pairing_takes_the_instances_difficulty_out_of_the_error():
    """Instances differ a lot, the hint helps each by the same: the paired error is 0, the unpaired one would not be."""
    regret = compute_paired_regret([(0.0, 0.25), (0.5, 0.75), (-1.0, -0.75)])
    assert (regret.mean, regret.error) == (0.25, 0.0)


def test_no_pair_no_regret_and_one_pair_no_error():
    assert compute_paired_regret([]) is None
    one = compute_paired_regret([(0.0, 1.0)])
    assert one.error is None


def test_regret_is_floored_scaled_and_clipped():
    values = [compute_paired_regret([(0.0, value)] * 2) for value in (-0.5, 0.0, 0.075, 0.15, 1.0)]
    assert [normalise_regret(regret, PAPER) for regret in values if regret] == pytest.approx([0, 0, 0.5, 1, 1])


def test_anchor_is_one_in_the_band_and_falls_over_the_ramp():
    rates = [0.0, 0.15, 0.275, 0.4, 0.5, 0.6, 0.725, 0.85, 1.0]
    assert [compute_anchor(rate, PAPER) for rate in rates] == pytest.approx([0, 0, 0.5, 1, 1, 1, 0.5, 0, 0])


def test_deployed_reward_weighs_regret_and_anchor():
    helped = compute_paired_regret([(0.0, 1.0), (1.0, 1.0)])
    assert regret_and_anchor(measured(helped, 0.5), PAPER) == pytest.approx(1.0)
    assert regret_and_anchor(measured(helped, 0.0), PAPER) == pytest.approx(0.4)
    assert regret_and_anchor(measured(None, 0.5), PAPER) == pytest.approx(0.6)


def test_every_kind_that_can_be_set_pays_what_its_name_says():
    window = measured(compute_paired_regret([(0.0, 1.0), (1.0, 1.0)]), 0.725, mean=-0.25, slow=0.5)
    paid = {kind: function(window, PAPER) for kind, function in KINDS.items()}
    without_hint = {"learning_potential": 0.75, "win_rate": 0.5, "calibrated_novelty": 0.7}
    assert paid == pytest.approx({"regret": 0.7, "progress": 0.4, "finding": 0.3, **without_hint})
    assert KINDS.keys() == set(get_args(get_type_hints(Reward)["kind"]))


def test_the_first_window_of_a_skill_has_no_learning_potential():
    assert KINDS["learning_potential"](measured(None, 0.5), PAPER) is None


@given(st.lists(st.tuples(RETURNS, RETURNS), max_size=20), st.floats(0, 1), st.booleans())
def test_reward_stays_in_the_unit_interval(pairs, win_rate, shrink):
    reward = regret_and_anchor(measured(compute_paired_regret(pairs), win_rate), Reward(shrink=shrink))
    assert 0 <= reward <= 1 + 1e-12


@given(st.lists(st.tuples(RETURNS, RETURNS), min_size=1, max_size=20))
def test_shrinking_never_turns_or_grows_the_regret(pairs):
    regret = compute_paired_regret(pairs)
    value = shrink_regret(regret)
    assert value * regret.mean >= 0
    assert abs(value) <= abs(regret.mean)


def test_shrinking_pays_less_for_noise():
    """True regret 0 at win rate 0.5: the floor and the small scale pay noise, the shrunken estimate pays less of it."""
    rng = Random(0)
    plain, shrink = 0.0, 0.0
    for _ in range(400):
        regret = compute_paired_regret([(float(rng.random() < 0.5), float(rng.random() < 0.5)) for _ in range(16)])
        assert regret is not None
        plain += normalise_regret(regret, PAPER) / 400
        shrink += normalise_regret(regret, Reward(shrink=True)) / 400
    assert plain > 0.25
    assert shrink < 0.75 * plain


def test_learnable_is_a_win_rate_in_the_band():
    assert [is_learnable(rate) for rate in (0.19, 0.2, 0.8, 0.81)] == [False, True, True, False]


def test_novelty_is_paid_beside_the_anchor_and_only_where_some_plays_are_won_and_some_are_not():
    settings = Reward(anchor_low=0.3, anchor_high=0.3, anchor_ramp=0.5)

    def paid(win_rate, similarity):
        return KINDS["calibrated_novelty"](measured(None, win_rate, similarity=similarity), settings)

    assert paid(0.3, 0.75) == pytest.approx(1.05)
    assert paid(0.9, 0.75) == pytest.approx(0.05)
    assert paid(0.9, None) == pytest.approx(0.2)
    assert (paid(0.0, None), paid(1.0, None)) == (0.0, 0.0)
