"""The games recipes at their own numbers, in simulated time; `python -m tests.bench.pacing` is the long version."""

import re
from pathlib import Path

import pytest

from spade.config import list_recipes, load
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


def test_the_learner_of_the_recipe_at_4b_trains_a_good_part_of_the_time():
    """With half of the GPUs it trains 16 % of the time, since plays take longer than its steps."""
    own = splits.CASES["games-4b, 6 + 2"]._replace(settings=())
    assert splits.simulate(own, 8, rounds=2).training > 0.3


@pytest.mark.parametrize("case", ["games-4b, 6 + 2", "games-8b, 3 + 5", "games-30b, 4 + 4"])
def test_a_recipe_states_the_disk_that_is_simulated(case):
    own = splits.CASES[case]._replace(settings=())
    (stated,) = re.findall(r"\n# Disk: .*: ([0-9,]+) \(", list_recipes()[own.recipe].read_text())
    assert float(stated.replace(",", "")) == pytest.approx(splits.disk_bytes(own, load(own.recipe)) / 1e9, abs=1)
    sizes = (Path(__file__).parents[3] / "docs" / "recipes.md").read_text()
    (steps,) = re.findall(r"run of 400 rollouts is some (\d+) steps", sizes)
    assert splits.disk_bytes(own, load(own.recipe), int(steps)) == splits.disk_bytes(own, load(own.recipe))
    assert f"| {stated} GB |" in sizes


def test_the_recipe_at_30b_states_the_times_in_which_it_writes():
    own = splits.CASES["games-30b, 4 + 4"]._replace(settings=())
    config, whole = load(own.recipe), load(own.recipe, splits.WHOLE)
    told = r"A publication takes (\d+) s and a checkpoint (\d+) s \(written whole, (\d+) s\)"
    (stated,) = re.findall(told, list_recipes()[own.recipe].read_text())
    simulated = splits.publish_s(own, config), splits.checkpoint_s(own, config), splits.checkpoint_s(own, whole)
    assert [float(each) for each in stated] == pytest.approx(simulated, abs=1)
