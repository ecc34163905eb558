"""A fragment: what one process holds of a tensor of the learner's state."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

PARAMETER, MOMENTS = "parameter", ("exp_avg", "exp_avg_sq")


class Fragment(NamedTuple):
    """Elements `start` and on of a flattened tensor that has `shape` as a whole.

    data: (count,), float32; what the optimiser itself updates, so that writing into it changes the state.
    """

    data: Tensor
    start: int
    shape: torch.Size


Fragments = dict[str, Fragment]
"""By KIND.NAME: `parameter.NAME`, `exp_avg.NAME`, `exp_avg_sq.NAME`."""


def all_of(tensor: Tensor) -> Fragment:
    """The fragment of a process that holds the whole of a contiguous tensor."""
    return Fragment(tensor.detach().view(-1), 0, tensor.shape)


def trained(model: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """The trained parameters, by name."""
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)


def whole_shape(parameter: torch.nn.Parameter) -> torch.Size:
    """The shape of the whole parameter, also if only a shard is here."""
    return torch.Size(getattr(parameter, "ds_shape", parameter.shape))
