import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade.returns import TOLERANCE, compute_episode_return, has_different_returns, is_won

TENTHS = sum([0.1] * 10)


def test_a_return_that_misses_a_win_by_rounding_is_one():
    assert TENTHS < 1.0
    assert is_won(TENTHS, 1.0)
    assert is_won(1 - TOLERANCE / 2, 1.0)
    assert not is_won(1 - 2 * TOLERANCE, 1.0)
    assert is_won(0.5, 0.5)
    assert not is_won(0.9, 1.0)


@given(st.floats(-1, 1), st.floats(-TOLERANCE / 4, TOLERANCE / 4), st.integers(1, 5))
def test_returns_that_differ_by_rounding_are_the_same(value, off, count):
    assert not has_different_returns([value, value + off] * count)
    assert has_different_returns([value] * count + [value + 2 * TOLERANCE])


def test_one_return_alone_and_none_do_not_differ():
    assert not has_different_returns([1.0])
    assert not has_different_returns([])


@pytest.mark.parametrize(("rewards", "terminated", "expected"), [
    ([0.2, 1.0], True, 1.0),
    ([0.9, 0.2], True, 0.2),
    ([0.5, 7.0], True, 1.0),
    ([-3.0], True, -1.0),
    ([1.0], False, 0.0),
])  # fmt: skip
def test_the_return_is_the_last_reward_of_an_episode_that_terminated(rewards, terminated, expected):
    assert compute_episode_return(rewards, terminated) == expected
