"""Tests that two ways of computing the same thing differ by their rounding alone."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import Module

# Distance relative to the norm: rounding stays under it; a wrong attention, or sequences that mix, exceed it.
_MOST = {torch.float32: 1e-3, torch.float64: 1e-3, torch.bfloat16: 0.1}
_CHAOS = 0.5  # bfloat16 alone may move logits so far; another attention moves them further, and float32 finds it


def alike(found: Tensor, expected: Tensor) -> bool:
    """True if `found` equals `expected` (of the same shape) by norm, not element by element."""
    distance = torch.dist(found.float(), expected.float())
    return bool(distance < _MOST[expected.dtype] * expected.float().norm())


def as_near(found: Tensor, rounded: Tensor, exact: Tensor) -> bool:
    """Return True if `found` is near `exact`, or at most twice as far from it as `rounded` is, by norm.

    exact: computed in float32. found, rounded: two computations in a narrower format. All have the same shape.
    Two sound computations in bfloat16 were 0.26 and 0.05 of the norm away, on a SmolLM2 after two learner steps.
    """
    ours, theirs = (torch.dist(each.float(), exact.float()) for each in (found, rounded))
    return bool(ours <= 2 * theirs + _CHAOS * exact.float().norm())


@contextmanager
def widened(model: Module) -> Iterator[None]:
    """Hold the bfloat16 parameters of `model` as float32 during the block. No value changes, then or afterwards."""
    narrow = [each for each in model.parameters() if each.dtype == torch.bfloat16]
    try:
        for each in narrow:
            each.data = each.data.float()
        yield
    finally:
        for each in narrow:
            each.data = each.data.bfloat16()
