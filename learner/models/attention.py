"""Attention within each sequence of a packed row, behind Transformers' attention interface.

Transformers makes a mask from restarting positions, computes all tokens² pairs of a row and keeps those within a
sequence. Here each sequence is a causal call of its own, so no other pair is computed, on any device.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface

PACKED = "spade_packed"
LAYERS = {"full_attention", "sliding_attention"}
_SEQUENCE = AttentionInterface()["sdpa"]  # type: ignore[no-untyped-call]


def packed_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packed_lengths: Sequence[int] | None = None,
    packed_windows: set[int | None] | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Causal attention of [rows, heads, tokens, dim] over each of the sequences; returns [rows, tokens, heads, dim].

    `packed_lengths` are the sequences' lengths, adding up to `tokens`; None: a row is one sequence. Key heads may be
    fewer than query heads. No dropout, and no padding: Transformers makes no `attention_mask` for it.
    `packed_windows` receives the layer's `sliding_window`.
    """
    if packed_windows is not None:
        packed_windows.add(sliding_window)
    lengths = list(packed_lengths or (query.shape[2],))
    outputs = [
        _SEQUENCE(module, q, k, v, _band(q, sliding_window), scaling=scaling)[0]
        for q, k, v in zip(*(torch.split(every, lengths, 2) for every in (query, key, value)), strict=True)
    ]
    return torch.cat(outputs, 1), None


def _band(query: Tensor, window: int | None) -> Tensor | None:
    """The mask, bool (tokens, tokens), of a sliding window that is shorter than the sequence."""
    tokens = query.shape[2]
    if window is None or tokens <= window:
        return None
    return torch.ones(tokens, tokens, dtype=torch.bool, device=query.device).tril().triu(1 - window)


AttentionInterface.register(PACKED, packed_attention)
