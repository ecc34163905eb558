"""`games-0.6b` with nano in the place of its model, on a CPU: engine and learner share the device."""

from tests.recipes.small_runs import play, trained_roles

NANO = (
    "model.path=nano", "model.profile=nano", "model.dtype=float32", "design.corpus=builtin", "engine.kind=torch",
    "engine.device=cpu", "learner.device=cpu", "play.context_tokens=768", "engine.context_tokens=768",
    "design.max_tokens=448", "play.max_turn_tokens=32", "learner.microbatch_tokens=1536",
    "sandbox.random_win_share=0.5",  # as in the recipe of nano, whose designs would else seldom pass
)  # fmt: skip


def test_all_parameters_are_trained_by_both_roles(tmp_path):
    found = play(tmp_path, "games-0.6b", *NANO, steps=2)
    assert trained_roles(found) == {"agent", "designer"}
