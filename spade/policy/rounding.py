"""A test that two ways of computing the same thing differ by their rounding alone."""

import torch
from torch import Tensor

# Distance relative to the norm: rounding stays under it; a wrong attention, or sequences that mix, exceed it.
_MOST = {torch.float32: 1e-3, torch.float64: 1e-3, torch.bfloat16: 0.1}


def alike(found: Tensor, expected: Tensor) -> bool:
    """True if `found` equals `expected` (of the same shape) by norm, not element by element."""
    distance = torch.dist(found.float(), expected.float())
    return bool(distance < _MOST[expected.dtype] * expected.float().norm())
