"""The key-value store of the torch engine behind Transformers' Cache and attention interfaces.

A sequence lives in a *slot*: one row of each layer's store, [slots, heads, tokens, dim], for as long as nobody needs
the slot. One forward takes any mixture of sequences, *packed*: the new tokens of all of them one after the other as a
batch of one, so that linear layers never see padding. `update` scatters keys and values into the slots; attention then
runs in *groups* of sequences of like size, which alone are padded.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, Cache

ATTENTION = "spade_slots"
_FIRST_TOKENS = 256


class Chunk(NamedTuple):
    """`size` new tokens of the sequence in `slot`, at positions `start` and on."""

    slot: int
    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


def arrange(chunks: Sequence[Chunk], spare: int) -> list[list[Chunk]]:
    """Chunks in groups that attend together, padded to their longest.

    A group's cost is rows * queries * keys; a group more costs about as much as `spare` of them.
    """
    groups: list[list[Chunk]] = []
    queries = keys = 0
    for chunk in sorted(chunks, key=lambda chunk: (chunk.size, chunk.end)):
        if groups:
            rows = len(groups[-1])
            wider, longer = max(queries, chunk.size), max(keys, chunk.end)
            grown = (rows + 1) * wider * longer - rows * queries * keys
            if grown <= chunk.size * chunk.end + spare:
                groups[-1].append(chunk)
                queries, keys = wider, longer
                continue
        groups.append([chunk])
        queries, keys = chunk.size, chunk.end
    return [sorted(group) for group in groups]


class Group:
    """Rows of one padded attention.

    rows      rows of the store it reads: a range (which may hold slots of others) or a list of slots
    keys      how many keys of each it reads
    packed    (rows, queries): the packed token each query is, 0 where there is none
    real      (tokens,): which of the rows * queries are tokens, in packed order; None: all, in order
    position  (rows, queries, 1): position of each query
    """

    def __init__(self, chunks: Sequence[Chunk], first: int, device: torch.device) -> None:
        low, high = chunks[0].slot, chunks[-1].slot + 1
        dense = 2 * len(chunks) > high - low
        row = [chunk.slot - low for chunk in chunks] if dense else list(range(len(chunks)))
        rows, queries = (high - low if dense else len(chunks)), max(chunk.size for chunk in chunks)
        self.keys = max(chunk.end for chunk in chunks)
        self.rows = slice(low, high) if dense else torch.tensor([chunk.slot for chunk in chunks], device=device)
        packed = np.zeros((rows, queries), dtype=np.int64)
        position = np.zeros((rows, queries), dtype=np.int64)
        at = first
        for index, chunk in zip(row, chunks, strict=True):
            packed[index, : chunk.size] = range(at, at + chunk.size)
            position[index, : chunk.size] = range(chunk.start, chunk.end)
            at += chunk.size
        real = np.concatenate([i * queries + np.arange(chunk.size) for i, chunk in zip(row, chunks, strict=True)])
        self.packed = torch.from_numpy(packed).to(device)
        self.real = None if len(real) == rows * queries else torch.from_numpy(real).to(device)
        self.position = torch.from_numpy(position)[:, :, None].to(device)
        self._masks: dict[tuple[int | None, int, torch.dtype], Tensor] = {}

    def mask(self, window: int | None, shared: int, dtype: torch.dtype) -> Tensor:
        """Additive (rows, 1, shared * queries, keys): a query sees keys up to its own position, the last `window`."""
        known = self._masks.get((window, shared, dtype))
        if known is None:
            key = torch.arange(self.keys, device=self.position.device)
            hidden = key > self.position
            if window is not None:
                hidden |= key <= self.position - window
            known = torch.zeros(hidden.shape, dtype=dtype, device=key.device).masked_fill_(hidden, -torch.inf)
            known = known.repeat(1, shared, 1)[:, None] if hidden.shape[1] > 1 else known[:, None]
            self._masks[window, shared, dtype] = known
        return known


class Plan:
    """One forward: packed tokens by group, then by slot.

    chunks  in packed order
    slot    (tokens,), position (tokens,): where each packed token belongs, on the host and on the device
    """

    def __init__(self, chunks: Sequence[Chunk], spare: int, device: torch.device) -> None:
        groups = arrange(chunks, spare)
        self.chunks = [chunk for group in groups for chunk in group]
        counts = [chunk.size for chunk in self.chunks]
        self.slot = np.repeat([chunk.slot for chunk in self.chunks], counts)
        self.position = np.concatenate([np.arange(chunk.start, chunk.end) for chunk in self.chunks])
        self.slots = torch.from_numpy(self.slot).to(device)
        self.positions = torch.from_numpy(self.position).to(device)
        self.groups = []
        first = 0
        for group in groups:
            self.groups.append(Group(group, first, device))
            first += sum(chunk.size for chunk in group)


class SlotCache(Cache):
    """Keys and values of `slots` sequences, by layer [slots, heads, tokens, dim], tokens doubling up to `limit`."""

    plan: Plan

    def __init__(self, slots: int, limit: int) -> None:
        super().__init__(layers=[])
        self.slots = slots
        self.limit = limit
        self.tokens = min(_FIRST_TOKENS, limit)
        self.stores: dict[int, tuple[Tensor, Tensor]] = {}

    def reserve(self, tokens: int) -> None:
        """Make room for sequences of `tokens` (at most `limit`)."""
        if tokens <= self.tokens:
            return
        self.tokens = min(self.limit, 1 << (tokens - 1).bit_length())
        for layer, (keys, values) in self.stores.items():
            self.stores[layer] = (self._grown(keys), self._grown(values))

    def _grown(self, old: Tensor) -> Tensor:
        # Zeros, not empty: what lies behind a sequence's end is masked, but 0 * nan would still be nan.
        new = old.new_zeros(old.shape[0], old.shape[1], self.tokens, old.shape[3])
        new[:, :, : old.shape[2]] = old
        return new

    def copy(self, source: int, target: int, tokens: int) -> None:
        """Give slot `target` the first `tokens` of slot `source`."""
        for keys, values in self.stores.values():
            keys[target, :, :tokens] = keys[source, :, :tokens]
            values[target, :, :tokens] = values[source, :, :tokens]

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Store the packed keys and values, each [1, heads, tokens, dim], at their slots and positions."""
        if layer_idx not in self.stores:
            self.stores[layer_idx] = (self._empty(key_states), self._empty(value_states))
        for store, new in zip(self.stores[layer_idx], (key_states, value_states), strict=True):
            store[self.plan.slots, :, self.plan.positions] = new[0].transpose(0, 1)
        return key_states, value_states

    def _empty(self, like: Tensor) -> Tensor:
        return like.new_zeros(self.slots, like.shape[1], self.tokens, like.shape[3])

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Positions are always given, so nothing is derived from this."""
        return 0


def slot_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    slot_cache: SlotCache,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention of packed queries [1, heads, tokens, dim] over the slots; returns [1, tokens, heads, dim].

    Query heads that share a key head are laid out as further queries of it, so that keys are read where they lie.
    """
    keys, values = slot_cache.stores[module.layer_idx]  # type: ignore[index]
    heads, shared = keys.shape[1], query.shape[1] // keys.shape[1]
    packed = query[0].transpose(0, 1)
    outputs = []
    for group in slot_cache.plan.groups:
        rows, queries = group.packed.shape
        mine = packed[group.packed].transpose(1, 2).reshape(rows, heads, shared * queries, -1)
        out = scaled_dot_product_attention(
            mine,
            keys[:, :, : group.keys][group.rows],
            values[:, :, : group.keys][group.rows],
            attn_mask=group.mask(sliding_window, shared, query.dtype),
            scale=scaling,
        )
        out = out.reshape(rows, heads * shared, queries, -1).transpose(1, 2).flatten(0, 1)
        outputs.append(out if group.real is None else out[group.real])
    return torch.cat(outputs)[None] if len(outputs) > 1 else outputs[0][None], None


AttentionInterface.register(ATTENTION, slot_attention)
