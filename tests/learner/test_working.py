"""The bfloat16 copy that a GPU computes with, tried on a CPU against autocast and against float32."""

import pytest
import torch

from learner.backends import torch as backends
from learner.backends.torch import TorchBackend
from learner.models.working import WorkingCopy
from spade.protocol import Batch
from tests.learner.test_shared_beginnings import batch_of, gradient, make, wanted


def parameters(model):
    return torch.cat([one.detach().flatten() for one in model.parameters()])


@pytest.mark.parametrize(("name", "recompute"), [("qwen3", "true"), ("llama", "false")])
@pytest.mark.usefixtures("large_eps")
def test_a_step_with_the_copy_is_a_step_in_bfloat16(name, recompute, monkeypatch):
    groups, found = batch_of(1)[1], []
    for dtype, copied in (("float32", False), ("bfloat16", False), ("bfloat16", True)):
        monkeypatch.setattr(backends, "needs_copy", lambda *_, copied=copied: copied)
        settings = wanted(
            f"model.dtype={dtype}", f"learner.activation_checkpointing={recompute}",
            "learner.microbatch_tokens=90", "learner.steps_per_batch=2", "learner.lr=1e-4", "loss.kind=cispo",
        )  # fmt: skip
        tested = TorchBackend(make(name).model, settings)
        metrics = tested.train(Batch(1, 1, groups))
        assert {one.dtype for one in tested.model.parameters()} == {torch.float32}
        found.append((metrics, gradient(tested.model), parameters(tested.model)))
    (exact, expected, after), *low = found
    for metrics, ours, parameters_after in low:
        assert metrics.loss == pytest.approx(exact.loss, abs=0.05)
        assert torch.dist(ours, expected) < 0.1 * expected.norm()
        assert torch.dist(parameters_after, after) < 1e-3 * after.norm()
        assert not torch.equal(ours, expected)


def test_gradients_are_summed_in_float32_and_tied_weights_stay_tied():
    model = make("qwen3").model
    working = WorkingCopy(model)
    assert working.model.lm_head.weight is working.model.model.embed_tokens.weight
    ids = torch.arange(12)[None]
    once = None
    for _ in range(3):
        working.model(input_ids=ids, labels=ids).loss.backward()
        once = gradient(model) if once is None else once
    assert torch.allclose(gradient(model), 3 * once, rtol=1e-6)
    assert all(one.grad is None for one in working.model.parameters())


def test_only_plain_norms_are_fused_and_the_copy_follows_its_model():
    for name, fused in (("qwen3", True), ("gemma3, windows of 7 in every other layer", False)):
        model = make(name).model
        working = WorkingCopy(model)
        norms = [one for one in working.model.modules() if type(one).__name__.endswith("RMSNorm")]
        assert {"forward" in vars(one) for one in norms} == {fused}
        with torch.no_grad():
            for one in model.parameters():
                one.mul_(1.5)
        working.refresh()
        ids = torch.arange(12)[None]
        assert torch.allclose(working.model(ids).logits.float(), model(ids).logits, atol=0.15, rtol=0.1)


def test_a_loaded_state_reaches_the_copy(tmp_path, monkeypatch):
    monkeypatch.setattr(backends, "needs_copy", lambda *_: True)
    settings, groups = wanted("model.dtype=bfloat16", "learner.lr=1e-2"), batch_of(1)[1]
    first = TorchBackend(make("llama").model, settings)
    first.train(Batch(1, 1, groups))
    first.save(tmp_path)
    resumed = TorchBackend(make("llama").model, settings)
    resumed.load(tmp_path)
    assert resumed.train(Batch(2, 1, groups)) == first.train(Batch(2, 1, groups))
    assert torch.equal(parameters(resumed.model), parameters(first.model))
