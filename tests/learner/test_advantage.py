import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learner.advantage import (
    compute_agent_advantages,
    compute_designer_advantages,
    compute_designer_weight,
    group_advantages,
)
from spade.protocol import Group, Trajectory

returns = st.lists(st.integers(-100, 100).map(lambda value: value / 100), min_size=2, max_size=20)
TOKEN = Trajectory(b"\0" * 8, (1, 1), b"\0" * 4, ((1, 1),), 1.0)


def group(role, rewards, baseline=None):
    return Group("g", role, tuple(rewards), (TOKEN,) * len(rewards), baseline)


@given(returns)
def test_agent_advantages_are_standard_scores(values):
    advantages = compute_agent_advantages(values)
    assert advantages.mean() == pytest.approx(0, abs=1e-9)
    assert advantages.std() == pytest.approx(1 if len(set(values)) > 1 else 0, abs=1e-9)
    assert (np.argsort(advantages, kind="stable") == np.argsort(values, kind="stable")).all()


@given(returns, st.floats(0.5, 10), st.floats(-10, 10))
def test_agent_advantages_know_no_scale_and_no_origin(values, scale, shift):
    moved = compute_agent_advantages([scale * value + shift for value in values])
    assert moved == pytest.approx(compute_agent_advantages(values), abs=1e-6)


def test_equal_returns_in_different_roundings_teach_nothing():
    assert compute_agent_advantages([0.1 + 0.2, 0.3, 0.3]).tolist() == [0, 0, 0]


def test_one_win_among_four():
    # mean 1/4, variance 1/4 * 3/4
    assert compute_agent_advantages([0, 1, 0, 0]) == pytest.approx(np.array([-1, 3, -1, -1]) / 3**0.5)


@given(returns, st.floats(-1, 1))
def test_designer_advantages_are_differences_to_the_mean(values, baseline):
    advantages = compute_designer_advantages(values, baseline)  # not alone: the baseline does not count
    assert advantages.sum() == pytest.approx(0, abs=1e-9)
    assert np.diff(advantages) == pytest.approx(np.diff(values), abs=1e-9)


def test_a_designer_alone_is_compared_with_the_baseline():
    assert compute_designer_advantages([0.7], 0.5).tolist() == pytest.approx([0.2])
    assert compute_designer_advantages([0.7], None).tolist() == [0]


def test_each_role_has_its_own_rule():
    assert group_advantages(group("agent", (0, 1))).tolist() == [-1, 1]
    assert group_advantages(group("designer", (0, 1))).tolist() == [-0.5, 0.5]


@given(st.integers(1, 50), st.integers(1, 50), st.floats(0.1, 64))
def test_designer_weight_balances_the_roles_up_to_its_bound(agents, designers, most):
    weight = compute_designer_weight([group("agent", [0] * agents), group("designer", [0] * designers)], most)
    assert weight == min(agents / designers, most)


def test_a_role_alone_is_not_weighted():
    assert compute_designer_weight([group("agent", (0, 1))], 32) == 1
    assert compute_designer_weight([group("designer", (0, 1))], 32) == 1
