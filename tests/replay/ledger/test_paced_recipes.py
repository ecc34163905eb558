"""The games recipes at their own numbers, in simulated time; `python -m tests.bench.pacing` is the long version."""

import pytest

from tests.bench.pacing import simulate


@pytest.mark.parametrize(("recipe", "play_s"), [("games-4b", 20.0), ("games-30b", 110.0), ("games-8b", 400.0)])
def test_next_to_nothing_is_wasted_of_either_role_and_no_window_is_cut(recipe, play_s):
    found = simulate(recipe, play_s, 48)
    assert found.designs > 100
    assert found.wasted_agent <= 0.005
    assert found.wasted_designer <= 0.005
    assert found.cut_windows == 0
    assert found.twice < 0.001
