"""Attention over the store by torch's flash kernel, without padding and without masks.

For the kernel, the queries of one chunk and one key head form a sequence. The keys of a sequence are contiguous in the
store, so the kernel reads them in place, whatever their number.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

try:
    from actors.engines.torch import single
except ImportError:  # torch for a CPU has no Triton
    single = None  # type: ignore[assignment]

_LARGEST_HEAD = 256


class FlashCall(NamedTuple):
    """The sequences of one call of the kernel."""

    order: Tensor | None
    """Rows (token * key heads + key head) of the queries, in the order of the sequences. If None, all rows in order."""

    queries: Tensor
    """(sequences + 1,) int32: the first query of each sequence, and the number of queries."""

    keys: Tensor
    """(sequences + 1,) int32: the row of each sequence's first key in the store. The last number is not used."""

    counts: Tensor
    """(sequences,) int32: the number of keys of each sequence."""

    most_queries: int
    """Bound on the number of queries of a sequence."""

    most_keys: int
    """Bound on the number of keys of a sequence."""


@cache
def can_run(device: torch.device, dtype: torch.dtype, dim: int) -> bool:
    """Return True if the kernel computes heads of `dim` numbers of `dtype` on this device."""
    return (
        device.type == "cuda"
        and torch.backends.cuda.is_flash_attention_available()
        and torch.cuda.get_device_capability(device) >= (8, 0)
        and dtype in (torch.bfloat16, torch.float16)
        and dim % 8 == 0
        and dim <= _LARGEST_HEAD
    )


def compute_flash(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    heads: int,
    calls: Sequence[FlashCall],
    scale: float | None,
    window: int | None,
) -> Tensor:
    """Compute attention of packed queries (tokens, heads, dim). Return the same shape.

    keys, values: (rows, dim), the whole store of a layer with `heads` key heads.
    """
    rows = query.reshape(-1, query.shape[1] // heads, query.shape[2])
    mixed = torch.empty_like(rows)
    for call in calls:
        if call.order is None:
            mixed = run_kernel(rows, keys, values, call, scale, window)
        else:
            mixed.index_copy_(0, call.order, run_kernel(rows[call.order], keys, values, call, scale, window))
    return mixed.view(query.shape)


def run_kernel(
    query: Tensor, keys: Tensor, values: Tensor, call: FlashCall, scale: float | None, window: int | None
) -> Tensor:
    """Run the kernel on ordered queries (queries, heads that share a key head, dim). Return the same shape."""
    if call.most_queries == 1 and single is not None and single.can_attend(query.device, query.dtype):
        return single.attend_single(query, keys, values, call.keys, call.counts, scale, window)
    mixed: Tensor = torch.ops.aten._flash_attention_forward(
        query,
        keys[:, None],
        values[:, None],
        call.queries,
        call.keys,
        call.most_queries,
        call.most_keys,
        0.0,
        call.most_queries > 1,  # causal? A single query is the newest token, which sees all keys.
        False,
        scale=scale,
        window_size_left=None if window is None else window - 1,
        window_size_right=None if window is None else 0,
        seqused_k=call.counts,
    )[0]
    return mixed
