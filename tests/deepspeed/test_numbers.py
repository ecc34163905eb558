"""The same numbers as the torch backend, however the work and the state are spread."""

import math

import msgspec
import pytest
import torch

from spade.policy.model import load
from spade.policy.model_folder import NANO
from spade.protocol import Batch
from tests.deepspeed.backends import STEPS, alone, deepspeed, difference, life, opened, tensors, train
from tests.learner.test_shared_beginnings import batch_of
from tests.learner.test_torch_backend import spoiled


def test_parameters_large_enough_to_be_sharded(policy, tmp_path):
    """DeepSpeed leaves those of fewer than 100,000 elements whole in stage 3; the nano model's vocabulary is more."""
    ours = deepspeed(3, 2, "learner.microbatch_tokens=512")
    (found, _), (expected, _) = both(policy, NANO, tmp_path, ours, ("learner.microbatch_tokens=512",))
    assert max(value.numel() for value in expected.values()) > 100_000
    assert difference(found, expected) <= 1e-5


def both(policy, folder, tmp_path, ours, torchs=()):
    """(state, metrics) after five steps of a DeepSpeed backend, and of the torch backend."""
    runs = []
    for name, settings in {"deepspeed": ours, "torch": torchs}.items():
        metrics = alone(life, folder, settings, policy, STEPS, tmp_path / name)
        runs.append((tensors(tmp_path / name), metrics))
    return runs


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_five_steps_give_torchs_parameters(policy, checkpoint_folder, tmp_path, stage, processes):
    (found, metrics), (expected, torchs) = both(policy, checkpoint_folder, tmp_path, deepspeed(stage, processes))
    for kind, most in {"parameter": 1e-5, "exp_avg": 1e-4, "exp_avg_sq": 1e-4, "step": 0.0}.items():
        assert difference(found, expected, kind) <= most, kind
    for one, other in zip(metrics, torchs, strict=True):
        assert one.loss == pytest.approx(other.loss, abs=1e-5)
        assert one.grad_norm == pytest.approx(other.grad_norm, rel=1e-4)
        assert one.mismatch == pytest.approx(other.mismatch, rel=1e-4)
        assert one.tokens_by_lag == other.tokens_by_lag
        assert (one.trained_tokens, one.agent_sequences) == (other.trained_tokens, other.agent_sequences)


@pytest.mark.parametrize(("stage", "processes", "overrides"), [
    (2, 2, ("learner.offload=optimizer",)),
    (3, 2, ("learner.offload=all",)),
    (3, 1, ("learner.activation_checkpointing=true",)),
    (2, 2, ("learner.steps_per_batch=3", "loss.aggregation=sequence", "learner.schedule_steps=6")),
    (3, 2, ("loss.kl=0.1", "learner.microbatch_tokens=2048")),
])  # fmt: skip
def test_settings_mean_what_they_mean_to_torch(policy, checkpoint_folder, tmp_path, stage, processes, overrides):
    shared = tuple(one for one in overrides if "offload" not in one)
    ours = deepspeed(stage, processes, *overrides)
    (found, metrics), (expected, torchs) = both(policy, checkpoint_folder, tmp_path, ours, shared)
    assert difference(found, expected) <= 1e-5
    assert metrics[-1].kl == pytest.approx(torchs[-1].kl, rel=1e-3)
    assert metrics[-1].clip_fraction == pytest.approx(torchs[-1].clip_fraction, abs=0.02)


@pytest.mark.parametrize(("stage", "processes"), [(0, 1), (1, 2), (2, 1), (3, 2)])
def test_bfloat16_keeps_its_parameters_in_float32(policy, checkpoint_folder, tmp_path, stage, processes):
    """A step of 1e-5 is far under what bfloat16 tells apart at the size of these parameters."""
    shared = ("model.dtype=bfloat16", "learner.lr=1e-5", "learner.schedule=constant", "learner.weight_decay=0")
    before = dict(load(checkpoint_folder, dtype="float32", device=torch.device("cpu")).named_parameters())
    ours = deepspeed(stage, processes, *shared)
    (found, metrics), (expected, torchs) = both(policy, checkpoint_folder, tmp_path, ours, shared)
    assert metrics[0].loss == pytest.approx(torchs[0].loss, abs=0.05)
    assert difference(found, expected) < 1e-2
    for name, value in before.items():
        begun = value if stage == 0 else value.bfloat16().float()
        moved = (found[f"parameter.{name}"] - begun).abs()
        assert moved.mean() > 0, name
        assert moved.max() < 1e-4, name


def norms(folder, settings, batches):
    """Of the gradients of steps that leave the parameters as they are."""
    with opened(folder, *settings, "learner.lr=1e-12", "learner.schedule=constant") as backend:
        return [backend.train(Batch(step, 1, groups)).grad_norm for step, groups in enumerate(batches, 1)]


@pytest.mark.parametrize(("stage", "offload"), [(2, "none"), (3, "optimizer")])
def test_gradients_of_many_micro_batches_add_up(policy, checkpoint_folder, stage, offload):
    """Of 300 equal ones bfloat16 would forget each beyond some 256."""
    design = policy.groups(1)[3]
    designs = tuple(msgspec.structs.replace(design, id=f"design-{index}") for index in range(300))
    each = f"learner.microbatch_tokens={design.trajectories[0].tokens}"
    ours = deepspeed(stage, 1, f"learner.offload={offload}", each, "model.dtype=bfloat16")
    one, many = alone(norms, checkpoint_folder, ours, (designs[:1], designs))
    assert many == pytest.approx(one, rel=0.01)


def not_finite(folder, settings, policy, out):
    """Metrics of a spoiled step and of the next one; whether the state was the same before and after the first."""
    with opened(folder, *settings) as backend:
        train(backend, policy, range(1, 3))
        states = []
        steps = {"before": None, "after": lambda: backend.train(spoiled(policy, 3))}
        for name, step in steps.items():
            metrics = step and step()
            (out / name).mkdir()
            backend.save(out / name)
            states.append(tensors(out / name))
        same = all(torch.equal(states[1][name], value) for name, value in states[0].items())
        return metrics, train(backend, policy, range(4, 5))[0], same


@pytest.mark.parametrize(("stage", "processes"), [(0, 1), (2, 1), (3, 2)])
def test_a_gradient_that_is_not_finite_changes_nothing(policy, checkpoint_folder, tmp_path, stage, processes):
    bad, good, same = alone(not_finite, checkpoint_folder, deepspeed(stage, processes), policy, tmp_path)
    assert same
    assert (bad.skipped, good.skipped) == (1, 0)
    assert all(math.isfinite(one.grad_norm) and math.isfinite(one.loss) for one in (bad, good))


def published(folder, settings, policy, out):
    """True if the published parameters are those of the state, and if the model can be asked."""
    with opened(folder, *settings) as backend:
        train(backend, policy, range(1, 3))
        backend.save(out)
        kept = tensors(out)
        same = all(torch.equal(one, kept[f"parameter.{name}"]) for name, one in backend.model.named_parameters())
        with torch.no_grad():
            return same, bool(backend.model(torch.arange(20)[None]).logits.isfinite().all())


@pytest.mark.parametrize(("stage", "processes"), [(2, 1), (3, 2)])
def test_the_published_parameters_are_the_trained_ones(policy, checkpoint_folder, tmp_path, stage, processes):
    assert alone(published, checkpoint_folder, deepspeed(stage, processes), policy, tmp_path) == (True, True)


class Sharing:
    """A policy whose plays begin alike, and whose later turns do not show the earlier ones' thoughts."""

    def groups(self, seed, off):
        return batch_of(seed)[1]


@pytest.mark.parametrize(("stage", "processes"), [(0, 2), (1, 1), (3, 2)])
@pytest.mark.parametrize("limit", [90, 2_048])
def test_shared_beginnings_give_torchs_parameters(checkpoint_folder, tmp_path, stage, processes, limit):
    """With 2,048 tokens and two ranks one of them has nothing to do, or half of the batch."""
    each = f"learner.microbatch_tokens={limit}"
    (found, metrics), (expected, torchs) = both(
        Sharing(), checkpoint_folder, tmp_path, deepspeed(stage, processes, each), (each,)
    )
    assert difference(found, expected) <= 1e-5
    for one, other in zip(metrics, torchs, strict=True):
        assert one.loss == pytest.approx(other.loss, abs=1e-5)
        assert one.grad_norm == pytest.approx(other.grad_norm, rel=1e-4)
        assert 0 < one.computed_fraction < 0.8
