"""The recipes for one GPU with nano in the place of their model, on a CPU: engine and learner share the device."""

import pytest

from tests.recipes.small_runs import play, trained_roles

NANO = (
    "model.path=nano", "model.profile=nano", "model.dtype=float32", "design.corpus=builtin", "engine.kind=torch",
    "engine.device=cpu", "learner.device=cpu", "play.context_tokens=768", "engine.context_tokens=768",
    "design.max_tokens=448", "play.max_turn_tokens=32", "learner.microbatch_tokens=1536",
)  # fmt: skip


def test_all_parameters_are_trained_by_both_roles(tmp_path):
    found = play(tmp_path, "games-0.6b", *NANO, steps=2)
    assert trained_roles(found) == {"agent", "designer"}


def test_an_adapter_is_trained(tmp_path):
    """Without DeepSpeed, which has a test of its own (`tests/deepspeed/test_up.py`)."""
    pytest.importorskip("peft", reason="the extra `lora` is not installed; make test-deepspeed installs it")
    found = play(tmp_path, "games-1.7b", *NANO, "learner.backend=torch", steps=1)
    assert found.batches
