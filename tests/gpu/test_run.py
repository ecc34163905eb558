"""A run whose engine and learner share the device."""

from tests.recipes.small_runs import play


def test_it_plays_and_trains(device, tmp_path):
    play(tmp_path, "nano", f"engine.device={device}", f"learner.device={device}", steps=2)
