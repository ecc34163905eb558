"""The sequential test: its errors, computed by enumerating the wins after each play, and what it costs."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.environments.sequential import BOUND, ERROR, decide

SHARES = [0.0, 0.05, 0.1, 0.25, 0.5]


@cache
def decisions(low: float, high: float) -> list[list[str]]:
    """By plays and wins."""
    return [[decide(wins, plays, low, high) for wins in range(plays + 1)] for plays in range(BOUND + 1)]


def outcome(share: float, low: float, high: float) -> dict[str, float]:
    """The exact probability of either decision, and the plays that are expected, where plays are won with `share`."""
    going, told = {0: 1.0}, {"reject": 0.0, "admit": 0.0, "plays": 0.0}
    for row in decisions(low, high)[1:]:
        after: dict[int, float] = {}
        for wins, probability in going.items():
            told["plays"] += probability
            for now, chance in ((wins, 1 - share), (wins + 1, share)):
                if row[now] == "go on":
                    after[now] = after.get(now, 0.0) + chance * probability
                else:
                    told[row[now]] += chance * probability
        going = after
    assert not going, "it goes on beyond its bound"
    return told


@pytest.mark.parametrize("low", SHARES)
def test_either_error_is_at_most_one_in_a_hundred(low):
    high = low + 0.15
    for part in (0.25, 0.5, 0.75, 1.0):
        assert outcome(part * low, low, high)["reject"] <= ERROR
        assert outcome(1 - part * (1 - high), low, high)["admit"] <= ERROR
    assert sum(outcome(low, low, high)[told] for told in ("reject", "admit")) == pytest.approx(1)


@pytest.mark.parametrize("low", [0.3, 0.4, 0.45, 0.6, 0.75, 0.85])
def test_the_errors_hold_between_and_beyond_the_shares_of_the_recipes(low):
    assert outcome(low, low, low + 0.15)["reject"] <= ERROR
    assert outcome(low + 0.15, low, low + 0.15)["admit"] <= ERROR


@pytest.mark.parametrize("low", SHARES)
def test_the_errors_hold_for_a_high_that_is_half_way_to_always(low):
    high = (1 + low) / 2
    assert outcome(low, low, high)["reject"] <= ERROR
    assert outcome(high, low, high)["admit"] <= ERROR


@pytest.mark.parametrize(("low", "never", "always"), [(0.0, 29, 1), (0.05, 25, 3), (0.25, 14, 6), (0.5, 7, 11)])
def test_a_play_never_or_always_won_is_decided_soon(low, never, always):
    assert outcome(0.0, low, low + 0.15)["plays"] == never
    assert outcome(1.0, low, low + 0.15)["plays"] == always


def test_most_of_what_is_seldom_won_takes_few_plays():
    assert outcome(0.01, 0.05, 0.2)["plays"] < 30
    assert outcome(0.1, 0.25, 0.4)["plays"] < 25
    assert outcome(0.2, 0.5, 0.65)["plays"] < 15


def test_one_win_refutes_that_it_is_never_won_and_one_loss_that_it_always_is():
    assert decide(1, 1, 0.0, 0.15) == "reject"
    assert decide(90, 91, 0.9, 1.0) == "admit"


@given(
    st.integers(0, BOUND + 50).flatmap(lambda plays: st.tuples(st.integers(0, plays), st.just(plays))),
    st.floats(0, 0.85),
)
def test_a_win_more_is_never_better_and_nothing_goes_on_beyond_the_bound(seen, low):
    order = ["admit", "go on", "reject"]
    wins, plays = seen
    told = decide(wins, plays, low, min(1.0, low + 0.15))
    assert plays < BOUND or told != "go on"
    if wins < plays:
        assert order.index(told) <= order.index(decide(wins + 1, plays, low, min(1.0, low + 0.15)))
