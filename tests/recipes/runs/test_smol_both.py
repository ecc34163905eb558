"""`smol-both` in the place of its model: nano designs and plays, in the recipe's rooms and limits."""

from tests.recipes.small_runs import hinted, play, trained_roles

NANO = (
    "model.path=nano", "model.profile=nano", "model.dtype=float32", "play.examples=[]", "engine.context_tokens=768",
    "play.context_tokens=768", "design.max_tokens=448", "design.hint_max_tokens=64",
    "sandbox.random_win_share=0.5",  # as in the recipe of nano, whose designs would else seldom pass
)  # fmt: skip


def test_both_roles_are_trained_with_the_regret(tmp_path):
    found = play(tmp_path, "smol-both", *NANO, steps=2)
    assert 0 < hinted(found) < len(found.plays)
    assert trained_roles(found) <= {"agent", "designer"}
    assert any(each.designed_version for each in found.environments.values())
