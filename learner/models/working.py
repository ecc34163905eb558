"""A bfloat16 copy of a float32 model. On a GPU the learner computes with the copy and optimises the float32 parameters.

Autocast casts the weights again for each micro-batch, and keeps the values between layers in float32. The copy casts
the weights once for each optimiser step, and all values are bfloat16, as in the engines.
"""

import copy
from functools import partial
from typing import Any

import torch
from torch.nn import Module, Parameter
from torch.nn.functional import rms_norm

from learner.models.compiled import compile_layers


def needs_copy(model: Any, dtype: str) -> bool:
    """Return True if the learner should compute `model` in a copy of `dtype`. On a CPU, autocast is faster."""
    return dtype == "bfloat16" and model.device.type != "cpu"


class WorkingCopy:
    """A bfloat16 copy of a float32 model. The copy is the attribute `model`.

    A backward pass of the copy adds its gradients to the float32 gradients of the original.
    """

    def __init__(self, model: Any) -> None:
        """Copy a prepared model. Buffers keep their dtype."""
        self._pairs = [
            (one, Parameter(one.detach().to(torch.bfloat16), requires_grad=one.requires_grad))
            for one in model.parameters()
        ]
        self.model = copy.deepcopy(model, {id(one): low for one, low in self._pairs})
        if not compile_layers(self.model):
            _fuse_norms(self.model)
        for one, low in self._pairs:
            if one.requires_grad:
                low.register_post_accumulate_grad_hook(partial(_move_gradient, one))  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def refresh(self) -> None:
        """Update the copy from the trained parameters of the original."""
        trained = [(low, one) for one, low in self._pairs if one.requires_grad]
        torch._foreach_copy_([low for low, _ in trained], [one for _, one in trained])


def _move_gradient(parameter: Any, low: Any) -> None:
    """Add the gradient of the copy's parameter to the float32 gradient. So micro-batches are summed in float32."""
    if parameter.grad is None:
        parameter.grad = low.grad.float()
    else:
        parameter.grad += low.grad
    low.grad = None


@torch.no_grad()
def _fuse_norms(model: Module) -> None:
    """Compute each RMSNorm (arXiv:1910.07467) in one kernel instead of the six kernels of Transformers."""
    for module in model.modules():
        weight, epsilon = getattr(module, "weight", None), getattr(module, "variance_epsilon", None)
        if weight is None or epsilon is None:
            continue
        fused = partial(rms_norm, normalized_shape=weight.shape, weight=weight, eps=epsilon)
        probe = torch.linspace(-1, 2, len(weight), dtype=weight.dtype, device=weight.device)[None]
        if torch.allclose(module(probe), fused(probe), rtol=0.02):  # other models add 1 to the weight
            module.forward = fused
