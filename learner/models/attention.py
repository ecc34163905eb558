"""Attention over the segments of a packed row, behind Transformers' attention interface.

Transformers makes a mask from restarting positions. It computes all tokens² pairs of a row and keeps the pairs within a
sequence. This module instead calls attention once for each segment, with the keys of the segments that it continues. So
no other pair is computed, on any device.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface

PACKED = "spade_packed"
LAYERS = {"full_attention", "sliding_attention"}
_SEGMENT = AttentionInterface()["sdpa"]  # type: ignore[no-untyped-call]


class Segments:
    """The segments of one packed row, and the masks of their attention. All layers use the same masks."""

    def __init__(self, lengths: Sequence[int], parents: Sequence[int]) -> None:
        """Take `lengths` and `parents` of a `learner.prefixes.Layout`."""
        self.lengths = list(lengths)
        self.paths = list[tuple[int, ...]]()
        """For each segment, the segments from the beginning of its sequences up to itself."""
        for index, parent in enumerate(parents):
            self.paths.append((*(self.paths[parent] if parent >= 0 else ()), index))
        self._masks = dict[tuple[int, int, int | None, torch.dtype], Tensor]()

    def mask(self, queries: int, keys: int, window: int | None, like: Tensor) -> Tensor | None:
        """Return the mask to add to the scores of the last `queries` of `keys` positions: (queries, keys), 0 or -inf.

        A position sees itself and earlier positions, `window` in all if the layer has a window. Returns None if a plain
        causal call does the same. The mask has the device and the dtype of `like`.
        """
        if (window is None or keys <= window) and queries in (1, keys):
            return None
        key = queries, keys, window, like.dtype
        if key not in self._masks:
            seen = torch.ones(queries, keys, dtype=torch.bool, device=like.device).tril(keys - queries)
            if window is not None:
                seen = seen.triu(keys - queries - window + 1)
            self._masks[key] = torch.zeros(queries, keys, dtype=like.dtype, device=like.device).masked_fill_(
                ~seen, -torch.inf
            )
        return self._masks[key]


def compute_packed_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packed_segments: Segments | None = None,
    packed_windows: set[int | None] | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend causally within each sequence: take [rows, heads, tokens, dim], return [rows, tokens, heads, dim].

    The lengths of `packed_segments` add up to `tokens`. If it is None, a row is one sequence. Key heads may be fewer
    than query heads. Dropout and padding are not supported: Transformers makes no `attention_mask` for this function.
    `packed_windows` receives the layer's `sliding_window`.
    """
    if packed_windows is not None:
        packed_windows.add(sliding_window)
    segments = packed_segments or Segments((query.shape[2],), (-1,))
    queries, keys, values = (torch.split(every, segments.lengths, 2) for every in (query, key, value))
    outputs = []
    for part, path in zip(queries, segments.paths, strict=True):
        k, v = _join_seen(keys, path, sliding_window), _join_seen(values, path, sliding_window)
        mask = segments.mask(part.shape[2], k.shape[2], sliding_window, v)
        outputs.append(_SEGMENT(module, part, k, v, mask, scaling=scaling)[0])
    return torch.cat(outputs, 1), None


def _join_seen(parts: Sequence[Tensor], path: Sequence[int], window: int | None) -> Tensor:
    """Join the keys or values of a path. Leave out positions beyond the window of the path's last segment."""
    joined = parts[path[0]] if len(path) == 1 else torch.cat([parts[index] for index in path], 2)
    if window is None:
        return joined
    return joined[:, :, -(parts[path[-1]].shape[2] + window - 1) :]


AttentionInterface.register(PACKED, compute_packed_attention)
