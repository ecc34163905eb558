"""Define a fragment, the part of a state tensor that one process holds."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

PARAMETER, MOMENTS = "parameter", ("exp_avg", "exp_avg_sq")


class Fragment(NamedTuple):
    """Consecutive elements of a flattened state tensor."""

    data: Tensor
    """The elements, (count,), float32. The optimiser updates this memory, so writing into it changes the state."""
    start: int
    """Index of the first element in the flattened tensor."""
    shape: torch.Size
    """Shape of the whole tensor."""


Fragments = dict[str, Fragment]
"""Fragments by KIND.NAME: `parameter.NAME`, `exp_avg.NAME`, `exp_avg_sq.NAME`."""


def make_whole_fragment(tensor: Tensor) -> Fragment:
    """Return a whole contiguous tensor as one fragment."""
    return Fragment(tensor.detach().view(-1), 0, tensor.shape)


def list_trained(model: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """Return (name, parameter) of each trained parameter."""
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)


def get_whole_shape(parameter: torch.nn.Parameter) -> torch.Size:
    """Return the shape of the whole parameter, even if this process holds only a shard."""
    return torch.Size(getattr(parameter, "ds_shape", parameter.shape))
