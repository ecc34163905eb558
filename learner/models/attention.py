"""Attention over the segments of a packed row, behind Transformers' attention interface.

For a row of n tokens, Transformers computes all n² pairs, and then masks the pairs of different sequences. This module
instead calls attention once for each segment, with the keys of this segment and of the segments before it in its
sequence. So no other pair is computed, on any device. On a GPU, one kernel computes all segments of a layer. On a
Hopper GPU or a newer one, each long segment is a call of cuDNN's kernel, which is almost twice as fast.
"""

from collections.abc import Sequence
from inspect import signature
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.varlen import varlen_attn
from torch.nn.functional import embedding, pad, scaled_dot_product_attention
from transformers import AttentionInterface

PACKED = "spade_packed"
_SEGMENT = AttentionInterface()["sdpa"]  # type: ignore[no-untyped-call]
# Before torch 2.12 the kernel accepts fewer key heads than query heads without an option.
_FEWER_KEYS: dict[str, Any] = {"enable_gqa": True} if "enable_gqa" in signature(varlen_attn).parameters else {}

# A segment of at least this many tokens gets its own call of cuDNN. cuDNN needs time to prepare each new shape, which
# pays off only after many calls.
ALONE = 4096
_ALONE_BACKENDS = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]


class Spans(NamedTuple):
    """Segments of a row, in the form that the kernel for variable lengths needs."""

    queries: Tensor
    """int32, (segments + 1,): the beginning of each segment in the row, and the end of the row."""
    keys: Tensor
    """int32, (segments + 1,): the beginning of each segment's keys among all keys, and the end of the last keys."""
    places: Tensor | None
    """int64, (keys,): the place in the row of each key. None if the keys are the row itself."""
    most_queries: int
    """Number of tokens of the longest segment."""
    most_keys: int
    """Number of keys of the segment with the most keys."""


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
        self._spans = dict[tuple[int | None, int], Spans]()

    def list_long(self, least: int) -> list[int]:
        """Return the segments of at least `least` tokens, except segments with more tokens before them than in them."""
        tokens = [sum(self.lengths[index] for index in path) for path in self.paths]
        pairs = enumerate(zip(self.lengths, tokens, strict=True))
        return [index for index, (length, keys) in pairs if length >= least and keys <= 2 * length]

    def spans(self, window: int | None, device: torch.device, among: Sequence[int]) -> Spans:
        """Return the spans of the segments `among`, with the keys of their paths.

        Keys that no position of the segment can see are left out (`window`). The last keys of a segment are its own
        tokens, so position i of its n sees all but the last n - 1 - i keys.
        """
        key = window, len(among)  # `among` is all segments or only the short ones, so its length is enough
        if key not in self._spans:
            tokens = [np.arange(*ends) for ends in pairwise(np.cumsum([0, *self.lengths]))]
            lengths = [self.lengths[index] for index in among]
            visible = [np.concatenate([tokens[part] for part in self.paths[index]]) for index in among]
            if window is not None:
                visible = [keys[-(length + window - 1) :] for keys, length in zip(visible, lengths, strict=True)]
            counts = [len(keys) for keys in visible]
            whole = len(among) == len(self.paths) == sum(len(path) for path in self.paths)
            self._spans[key] = Spans(
                queries=torch.from_numpy(np.cumsum([0, *lengths], dtype=np.int32)).to(device),
                keys=torch.from_numpy(np.cumsum([0, *counts], dtype=np.int32)).to(device),
                places=None if whole else torch.from_numpy(np.concatenate(visible)).to(device),
                most_queries=max(lengths),
                most_keys=max(counts),
            )
        return self._spans[key]

    def mask(self, queries: int, keys: int, window: int | None, like: Tensor) -> Tensor | None:
        """Return the mask to add to the scores of the last `queries` of `keys` positions: (queries, keys), 0 or -inf.

        A position sees itself and earlier positions: the last `window` of them, or all if `window` is None. Returns
        None if a plain causal call does the same. The mask has the device and the dtype of `like`.
        """
        if (window is None or keys <= window) and queries in (1, keys):
            return None
        key = queries, keys, window, like.dtype
        if key not in self._masks:
            visible = torch.ones(queries, keys, dtype=torch.bool, device=like.device).tril(keys - queries)
            if window is not None:
                visible = visible.triu(keys - queries - window + 1)
            self._masks[key] = torch.zeros(queries, keys, dtype=like.dtype, device=like.device).masked_fill_(
                ~visible, -torch.inf
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
    if _fits_kernel(query, value):
        return _attend_at_once(query, key, value, segments, scaling, sliding_window), None
    return _attend_by_segment(module, query, key, value, segments, scaling, sliding_window), None


def _fits_kernel(query: Tensor, value: Tensor) -> bool:
    """Return True if the kernel for variable lengths takes these tensors: FlashAttention 2 (arXiv:2307.08691)."""
    return (
        query.is_cuda
        and len(query) == 1
        and _find_dtype(query) in (torch.bfloat16, torch.float16)
        and query.shape[-1] == value.shape[-1] <= 256
        and query.shape[-1] % 8 == 0
        and torch.cuda.get_device_capability(query.device) >= (8, 0)
    )


def _find_dtype(query: Tensor) -> torch.dtype:
    """Return the dtype of the arithmetic. The kernel's function does not follow autocast by itself."""
    device = query.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else query.dtype


def _attend_at_once(
    query: Tensor, key: Tensor, value: Tensor, segments: Segments, scaling: float | None, window: int | None
) -> Tensor:
    """Attend in one call of the kernel for variable lengths, and in one call of cuDNN for each long segment."""
    dtype = _find_dtype(query)
    q, k, v = (every.to(dtype) for every in (query, key, value))
    alone = segments.list_long(ALONE) if window is None and _has_fast_cudnn(query.device) else []
    others = [index for index in range(len(segments.lengths)) if index not in alone]
    if not alone:
        return _attend_to_spans(q, k, v, segments.spans(window, query.device, others), scaling, window)
    queries, keys, values = (torch.split(every, segments.lengths, 2) for every in (q, k, v))
    found = {}
    for index in alone:
        key, value = (_join_seen(every, segments.paths[index], None) for every in (keys, values))
        found[index] = _attend_alone(queries[index], key, value, scaling)
    if others:
        rest, spans = torch.cat([queries[index] for index in others], 2), segments.spans(None, query.device, others)
        lengths = [segments.lengths[index] for index in others]
        found |= zip(others, torch.split(_attend_to_spans(rest, k, v, spans, scaling, None), lengths, 1), strict=True)
    return torch.cat([found[index] for index in range(len(found))], 1)


def _has_fast_cudnn(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) >= (9, 0)


def _attend_to_spans(
    query: Tensor, key: Tensor, value: Tensor, spans: Spans, scaling: float | None, window: int | None
) -> Tensor:
    """Attend in one call of the kernel. If several segments see a key, each of them gets a copy."""
    q, k, v = (every[0].transpose(0, 1) for every in (query, key, value))
    if spans.places is not None:
        # The gradient of an embedding sums the copies of a key in float32 and in a fixed order.
        joined = torch.cat((k, v), 1)
        copies = embedding(spans.places, joined.flatten(1)).view(-1, *joined.shape[1:])
        k, v = torch.split(copies, [k.shape[1], v.shape[1]], 1)
    # The mask is aligned to the last query and the last key.
    found = varlen_attn(
        q, k, v, spans.queries, spans.keys, spans.most_queries, spans.most_keys,
        scale=scaling, window_size=(-1 if window is None else window - 1, 0), **_FEWER_KEYS,
    )  # fmt: skip
    assert isinstance(found, Tensor)  # the kernel returns the log-sum-exp only if it is asked for
    return found[None]


def _attend_alone(query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
    """Attend from the last tokens of one sequence to all of it: take [1, heads, tokens, dim].

    A causal call needs as many queries as keys, so empty queries are put before the others. cuDNN prepares each length
    anew, so the length is rounded up to one of 16 between two powers of two. The keys that this adds come last, so no
    query of the sequence sees them.
    """
    length, keys = query.shape[2], key.shape[2]
    behind = -keys % (1 << max(0, keys.bit_length() - 5))
    q = pad(query, (0, 0, keys - length, behind))
    k, v = (pad(every, (0, 0, 0, behind)) for every in (key, value))
    with sdpa_kernel(_ALONE_BACKENDS, set_priority=True):
        found = scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=True)
    return found[:, :, keys - length : keys].transpose(1, 2)


def _attend_by_segment(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor,
    segments: Segments, scaling: float | None, window: int | None,
) -> Tensor:  # fmt: skip
    """Attend in one call for each segment, on any device and in any dtype."""
    queries, keys, values = (torch.split(every, segments.lengths, 2) for every in (query, key, value))
    outputs = []
    for part, path in zip(queries, segments.paths, strict=True):
        k, v = _join_seen(keys, path, window), _join_seen(values, path, window)
        mask = segments.mask(part.shape[2], k.shape[2], window, v)
        outputs.append(_SEGMENT(module, part, k, v, mask, scaling=scaling)[0])
    return torch.cat(outputs, 1)


def _join_seen(parts: Sequence[Tensor], path: Sequence[int], window: int | None) -> Tensor:
    """Join the keys or values of a path. Leave out positions beyond the window of the path's last segment."""
    joined = parts[path[0]] if len(path) == 1 else torch.cat([parts[index] for index in path], 2)
    if window is None:
        return joined
    return joined[:, :, -(parts[path[-1]].shape[2] + window - 1) :]


AttentionInterface.register(PACKED, compute_packed_attention)
