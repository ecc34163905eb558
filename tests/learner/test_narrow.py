"""Weights that are cast where they are used, beside the copies that autocast keeps."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from learner.models.narrow import cast_weights_late
from tests.learner.test_shared_beginnings import make


def compute(model):
    """Return the logits, the gradient, and the shapes of all bfloat16 tensors that were kept for the gradient."""
    kept = []

    def keep(value):
        if value.dtype == torch.bfloat16:
            kept.append(tuple(sorted(value.shape)))
        return value

    with saved_tensors_hooks(keep, lambda value: value), torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(input_ids=torch.arange(17)[None], use_cache=False).logits
    model.zero_grad()
    logits.float().square().mean().backward()
    return logits.detach(), [one.grad.clone() for one in model.parameters()], kept


@pytest.mark.parametrize("name", ["qwen3", "llama"])
def test_results_are_equal_and_no_weight_is_kept_in_bfloat16(name):
    model = make(name).model
    weights = {tuple(sorted(one.shape)) for one in model.parameters() if one.dim() == 2}
    logits, gradients, kept = compute(model)
    assert weights.intersection(kept)
    cast_weights_late(model)
    late_logits, late_gradients, late_kept = compute(model)
    assert torch.equal(late_logits, logits)
    for late, gradient in zip(late_gradients, gradients, strict=True):
        assert torch.dist(late, gradient) <= 1e-2 * gradient.norm()
    assert not weights.intersection(late_kept)
