"""A run goes on from its checkpoint on another number of processes, another stage, another backend."""

import pytest
import torch

from tests.deepspeed.backends import alone, deepspeed, difference, life, tensors

LIVES = ((), deepspeed(3, 2), deepspeed(1, 1), deepspeed(0, 2), deepspeed(2, 2), ())


def test_every_life_on_another_backend(policy, checkpoint_folder, tmp_path):
    alone(life, checkpoint_folder, (), policy, range(1, len(LIVES) + 1), tmp_path / "expected")
    after = None
    for step, settings in enumerate(LIVES, 1):
        alone(life, checkpoint_folder, settings, policy, range(step, step + 1), tmp_path / f"{step}", after)
        after = tmp_path / f"{step}"
    for kind in ("parameter", "exp_avg", "exp_avg_sq", "step"):
        assert difference(tensors(after), tensors(tmp_path / "expected"), kind) < 1e-5


@pytest.mark.parametrize(("stage", "processes", "form"), [(2, 1, "whole"), (3, 2, "sharded")])
def test_the_same_processes_resume_to_the_bit(policy, checkpoint_folder, tmp_path, stage, processes, form):
    settings = deepspeed(stage, processes)
    alone(life, checkpoint_folder, settings, policy, range(1, 6), tmp_path / "straight")
    kept = (*settings, f"learner.checkpoint={form}")
    alone(life, checkpoint_folder, kept, policy, range(1, 4), tmp_path / "kept")
    alone(life, checkpoint_folder, settings, policy, range(4, 6), tmp_path / "resumed", tmp_path / "kept")
    found, expected = tensors(tmp_path / "resumed"), tensors(tmp_path / "straight")
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], value) for name, value in expected.items())
