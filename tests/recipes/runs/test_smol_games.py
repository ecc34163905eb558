"""`smol-games` in the place of its model: nano plays the worlds that ship, in both arms."""

from spade.app.rundir import RunDir
from spade.app.supervisor.pools import read_run_programs
from spade.pools import read_shipped_programs
from tests.recipes.small_runs import hinted, play

NANO = (
    "model.path=nano", "model.profile=nano", "model.dtype=float32", "play.examples=[]", "engine.context_tokens=768",
    "play.context_tokens=768",
)  # fmt: skip


def test_worlds_that_ship_are_played_in_both_arms_and_their_regret_is_measured(tmp_path):
    found = play(tmp_path, "smol-games", *NANO, steps=2)
    worlds = list(read_shipped_programs("small"))
    assert 0 < hinted(found) < len(found.plays)
    for program in read_run_programs(RunDir(tmp_path / "smol-games")):
        world = next(world for world in worlds if world.source == program.source)
        assert (program.hint, program.skill) == (world.hint, world.skill)
    scores = [environment.score for environment in found.environments.values() if environment.score]
    assert scores
    assert all(score.regret is not None for score in scores)
