"""A test that two ways of computing the same thing differ by their rounding alone."""

import torch
from torch import Tensor

# Distance relative to the norm: rounding stays under it; another attention, or sequences that mix, do not.
_MOST = {torch.float32: 1e-3, torch.bfloat16: 0.1}


def alike(found: Tensor, expected: Tensor) -> bool:
    """True if `found` is `expected` (float32 or bfloat16, the same shape), by the norm and not number by number."""
    distance = torch.dist(found.float(), expected.float())
    return bool(distance < _MOST[expected.dtype] * expected.float().norm())
