"""Attention within each sequence of a packed row, behind Transformers' attention interface.

Transformers' own way, a mask made from restarting positions, computes all tokens² pairs of a row to keep those of one
sequence. Here every sequence is a causal call of its own, so nothing is computed that is not needed, on any device.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

PACKED = "spade_packed"
LAYERS = {"full_attention", "sliding_attention"}


def packed_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packed_lengths: Sequence[int] | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Causal attention of [rows, heads, tokens, dim] over each of the sequences; returns [rows, tokens, heads, dim].

    `packed_lengths` are the sequences' tokens, adding up to `tokens`; None: a row is one sequence. Key heads may be
    fewer than query heads. No dropout, and no padding: Transformers makes no `attention_mask` for it.
    """
    lengths = list(packed_lengths or (query.shape[2],))
    shared = query.shape[1] != key.shape[1]
    outputs = []
    for q, k, v in zip(*(torch.split(every, lengths, 2) for every in (query, key, value)), strict=True):
        band = _band(q, sliding_window)
        outputs.append(
            scaled_dot_product_attention(q, k, v, band, is_causal=band is None, scale=scaling, enable_gqa=shared)
        )
    return torch.cat(outputs, 2).transpose(1, 2), None


def _band(query: Tensor, window: int | None) -> Tensor | None:
    """The mask bool (tokens, tokens) of a sliding window, where the sequence is longer than it."""
    tokens = query.shape[2]
    if window is None or tokens <= window:
        return None
    return torch.ones(tokens, tokens, dtype=torch.bool, device=query.device).tril().triu(1 - window)


AttentionInterface.register(PACKED, packed_attention)
