"""The games recipes at their own numbers, in simulated time; `python -m tests.bench.pacing` is the long version."""

import pytest

from tests.bench import splits
from tests.bench.pacing import simulate


@pytest.mark.parametrize(("recipe", "play_s"), [("games-4b", 20.0), ("games-30b", 110.0), ("games-8b", 400.0)])
def test_next_to_nothing_is_wasted_of_either_role_and_no_window_is_cut(recipe, play_s):
    found = simulate(recipe, play_s, 48)
    assert found.designs > 100
    assert found.wasted_agent <= 0.005
    assert found.wasted_designer <= 0.005
    assert found.cut_windows == 0
    assert found.twice < 0.001


@pytest.mark.parametrize("case", ["games-8b, 3 + 5", "tools-8b, 3 + 5"])
def test_plays_that_think_end_before_the_deadlines_of_their_windows_and_leases(case):
    """`python -m tests.bench.splits` is the long version."""
    found = splits.simulate(splits.CASES[case], 16, rounds=1)
    assert found.play_s > 900
    assert found.cut == 0
    assert found.twice < 0.003
