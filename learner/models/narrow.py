"""Multiply in bfloat16 by float32 weights, without a bfloat16 copy of the model.

Autocast casts each weight once and keeps the result until the backward pass. The results need half of the model's
memory. This module casts each weight again in the backward pass instead, which costs a few percent of a step.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import Linear
from torch.nn.functional import linear


def cast_weights_late(model: Any) -> None:
    """Make each trained linear layer of `model` cast its weight at each use. Has no effect without autocast."""
    for module in model.modules():
        if type(module) is Linear and module.weight.requires_grad:
            module.forward = partial(_multiply, module)  # type: ignore[method-assign]


def _multiply(module: Linear, x: Tensor) -> Tensor:
    if not torch.is_autocast_enabled(x.device.type):
        return linear(x, module.weight, module.bias)
    product: Tensor = _Product.apply(x.to(torch.bfloat16), module.weight)  # type: ignore[no-untyped-call]
    return product if module.bias is None else product + module.bias.to(product.dtype)


class _Product(torch.autograd.Function):
    """Computes `linear` and its gradients in the dtype of the input. Casts the weight in both passes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return linear(x, weight.to(x.dtype))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        of_weight = gradient.flatten(0, -2).T @ x.flatten(0, -2)
        return gradient @ weight.to(gradient.dtype), of_weight.to(weight.dtype)
