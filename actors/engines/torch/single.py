"""Attention of single queries over the store, by a kernel in Triton.

While sequences decode, attention only reads keys and values. The flash kernel computes 128 queries at a time, so with a
single query it spends most of its time on multiplications. This kernel computes 16.
"""

import logging
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from spade.decoding import read_first_line

log = logging.getLogger(__name__)

_PROGRAMS = 512  # about this many programs keep a GPU busy
_MOST_SPLITS = 32
_KEYS, _WARPS, _STAGES = 64, 4, 3  # keys of one block (a power of two), warps of a program, blocks being loaded
_LOG2_E = 1.4426950408889634


def attend_single(
    query: Tensor, keys: Tensor, values: Tensor, first: Tensor, counts: Tensor, scale: float | None, window: int | None
) -> Tensor:
    """Compute attention of a single query of each sequence (sequences, heads that share a key head, dim).

    keys, values: (rows, dim), the store. first (sequences or more,): the row of each sequence's first key. counts
    (sequences,): the number of its keys. If there are few sequences, several programs share the keys of one sequence.
    """
    sequences, heads, dim = query.shape
    splits = min(_MOST_SPLITS, triton.next_power_of_2(max(1, _PROGRAMS // sequences)))
    parts = query.new_empty(splits, sequences, heads, dim, dtype=torch.float32)
    sums = query.new_empty(splits, sequences, heads, dtype=torch.float32)
    mixed = torch.empty_like(query)
    shape = {"HEADS": heads, "DIM": dim, "WIDTH": triton.next_power_of_2(dim), "SPLITS": splits}
    _attend[(sequences, splits)](
        query, keys, values, first, counts, mixed, parts, sums, (scale or dim**-0.5) * _LOG2_E,
        WINDOW=window or 0, ROWS=max(16, triton.next_power_of_2(heads)), KEYS=_KEYS, **shape,
        num_warps=_WARPS, num_stages=_STAGES,
    )  # fmt: skip
    if splits > 1:
        _join[(sequences * heads,)](parts, sums, mixed, **shape)
    return mixed


@triton.jit
def _attend(
    query, keys, values, first, counts, mixed, parts, sums, scale,
    WINDOW: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
    HEADS: tl.constexpr, DIM: tl.constexpr, WIDTH: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """Attend to a share of the keys of one sequence. `scale` includes log2(e), because exp is computed as exp2."""
    sequence, split = tl.program_id(0), tl.program_id(1)
    count = tl.load(counts + sequence)
    begin = tl.maximum(count - WINDOW, 0) if WINDOW > 0 else 0
    share = tl.cdiv(tl.cdiv(count - begin, KEYS), SPLITS) * KEYS
    low = begin + split * share
    high = tl.minimum(low + share, count)
    row, column = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    there = (row < HEADS)[:, None] & (column < DIM)[None, :]
    place = (sequence * HEADS + row[:, None]) * DIM + column[None, :]
    q = tl.load(query + place, mask=there, other=0.0)
    start = tl.load(first + sequence).to(tl.int64)
    top = tl.full((ROWS,), -float("inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    mixture = tl.zeros((ROWS, WIDTH), tl.float32)
    for at in range(low, high, KEYS):
        number = at + tl.arange(0, KEYS)
        address = (start + number)[:, None] * DIM + column[None, :]
        real = (number < high)[:, None] & (column < DIM)[None, :]
        k = tl.load(keys + address, mask=real, other=0.0)
        score = tl.where((number < high)[None, :], tl.dot(q, tl.trans(k)) * scale, -float("inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        weight = tl.exp2(score - higher[:, None])
        fade = tl.exp2(top - higher)
        total = total * fade + tl.sum(weight, 1)
        v = tl.load(values + address, mask=real, other=0.0)
        mixture = mixture * fade[:, None] + tl.dot(weight.to(v.dtype), v)
        top = higher
    if SPLITS == 1:
        tl.store(mixed + place, (mixture / total[:, None]).to(mixed.dtype.element_ty), mask=there)
    else:
        divisor = tl.where(total > 0, total, 1.0)  # the sum is 0 if no keys are left for this program
        offset = split * tl.num_programs(0) * HEADS
        tl.store(parts + offset * DIM + place, mixture / divisor[:, None], mask=there)
        tl.store(sums + offset + sequence * HEADS + row, top + tl.log2(total), mask=row < HEADS)


@triton.jit
def _join(parts, sums, mixed, HEADS: tl.constexpr, DIM: tl.constexpr, WIDTH: tl.constexpr, SPLITS: tl.constexpr):
    """Join the mixtures of one query over all shares of its keys."""
    query, queries = tl.program_id(0), tl.num_programs(0)
    split, column = tl.arange(0, SPLITS), tl.arange(0, WIDTH)
    total = tl.load(sums + split * queries + query)
    weight = tl.exp2(total - tl.max(total, 0))
    place = (split[:, None] * queries + query) * DIM + column[None, :]
    part = tl.load(parts + place, mask=(column < DIM)[None, :], other=0.0)
    mixture = tl.sum(part * weight[:, None], 0) / tl.sum(weight, 0)
    tl.store(mixed + query * DIM + column, mixture.to(mixed.dtype.element_ty), mask=column < DIM)


@cache
def can_attend(device: torch.device, dtype: torch.dtype) -> bool:
    """Return True if the kernel can be built here. Triton needs a C compiler and Python's headers."""
    if device.type != "cuda":
        return False
    small = torch.zeros(1, 2, 64, dtype=dtype, device=device)
    first, counts = (torch.full((1,), number, dtype=torch.int32, device=device) for number in (0, 1))
    try:
        attend_single(small, small[:, 0], small[:, 0], first, counts, None, None)
    except Exception as error:  # Triton, and the compiler that it calls, may raise any exception
        log.warning("cannot build the kernel for single queries, so the engine is slower: %s", read_first_line(error))
        return False
    return True
