"""Test whether two ways of computing the same thing differ only by rounding."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import Module

# The largest distance, relative to the norm, that counts as rounding. A wrong attention, or sequences that mix, exceed
# it.
_MOST = {torch.float32: 1e-3, torch.float64: 1e-3, torch.bfloat16: 0.1}


def describe_odd(expected: Tensor) -> str:
    """Describe why the results of a model's own forward pass cannot be compared with others. Returns "" if they can."""
    if not expected.isfinite().all():
        return "its own forward pass gives numbers that are not finite"
    return "" if expected.any() else "its own forward pass gives only zeros"


def is_alike(found: Tensor, expected: Tensor) -> bool:
    """Return True if `found` is close to `expected`, of the same shape, relative to the norm of `expected`."""
    distance = torch.dist(found.float(), expected.float())
    return bool(distance < _MOST[expected.dtype] * expected.float().norm())


def is_as_near(found: Tensor, rounded: Tensor, exact: Tensor) -> bool:
    """Return True if the distance of `found` from `exact` is at most twice the distance of `rounded` from `exact`.

    A token's distance is the norm of the difference, relative to the norm of its logits in `exact`. Medians over the
    tokens are compared. A mean would not do: on a real model, bfloat16 moves the logits of one token in thirty by their
    whole norm.

    exact: (..., vocabulary), computed in float32. found, rounded: of the same shape, in a narrower format.
    """
    exact = exact.float()
    sizes = exact.norm(dim=-1)
    ours, theirs = (((each.float() - exact).norm(dim=-1) / sizes).median() for each in (found, rounded))
    return bool(ours <= 2 * theirs + _MOST[torch.float32])


@contextmanager
def hold_widened(model: Module) -> Iterator[None]:
    """Hold the bfloat16 parameters of `model` as float32 during the block. Neither conversion changes a value."""
    narrow = [each for each in model.parameters() if each.dtype == torch.bfloat16]
    try:
        for each in narrow:
            each.data = each.data.float()
        yield
    finally:
        for each in narrow:
            each.data = each.data.bfloat16()
