"""`nano-fixed` for a few steps, and its policy on the suite of the same names; `make test-suites` has its library."""

from contextlib import suppress

import pytest

from actors.sandbox.opening import require
from actors.suites.reasoning_gym import SMALL
from spade.errors import RunError
from tests.recipes.small_runs import hinted, play, processes, spade, trained_roles


@pytest.fixture(autouse=True)
def _library():
    with suppress(RunError):
        return require(("reasoning-gym",))
    pytest.skip("reasoning-gym is not installed: `make test-suites` plays this recipe")


def test_nano_plays_data_sets_whose_levels_rise_and_is_measured_on_the_same_names(tmp_path):
    found = play(tmp_path, "nano-fixed", "pool.window_plays=16", "pool.window_rate=0.01", steps=6)
    assert {environment.program for environment in found.environments.values()} == set(SMALL)
    assert hinted(found) == 0
    assert trained_roles(found) == {"agent"}
    assert {play.fault for play in found.plays.values()} == {""}
    assert not any(environment.grouped for environment in found.environments.values())
    risen = {window.name for window in found.windows.values() if window.high}
    assert risen
    drawn = {environment.program for environment in found.environments.values() if environment.level}
    assert drawn <= risen
    had = processes(tmp_path / "nano-fixed")
    assert "curator-0" in had
    assert not any(name.startswith("designer") for name in had)
    told = spade(
        tmp_path, "eval", "nano-fixed", "--suite", "reasoning-gym-nano", "--protocol", "short", "--items", "6",
        "--against", "none",
    )  # fmt: skip
    assert "reasoning-gym-nano@short: 6 of 6 samples" in told
