"""The key-value store of the torch engine behind Transformers' Cache and attention interfaces.

A sequence lives in a *slot*, whose keys and values lie in one extent of each layer's store, [heads, tokens, dim], for
as long as nobody needs the room. One forward takes any mixture of sequences, *packed*: the new tokens of all of them
one after the other as a batch of one, so that linear layers never see padding. `update` scatters keys and values into
the extents; attention then runs in *groups* of sequences of like size, which alone are padded.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, Cache

from actors.engines.extents import Extent
from spade.errors import ConfigError

ATTENTION = "spade_slots"


class Chunk(NamedTuple):
    """`size` new tokens of the sequence in `slot`, at positions `start` and on, stored in `extent`."""

    slot: int
    extent: Extent
    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


def arrange(chunks: Sequence[Chunk], spare: int) -> list[list[Chunk]]:
    """Chunks in groups that attend together: of extents of one size, padded to their longest.

    A group's cost is rows * queries * keys; a group more costs about as much as `spare` of them, so padding may.
    """
    groups: list[list[Chunk]] = []
    cost = 0
    for chunk in sorted(chunks, key=lambda chunk: (chunk.extent.size, chunk.size, chunk.end)):
        cost += chunk.size * chunk.end
        if groups and groups[-1][0].extent.size == chunk.extent.size:
            keys = max(groups[-1][-1].end, chunk.end)
            if (len(groups[-1]) + 1) * chunk.size * keys <= cost + spare:
                groups[-1].append(chunk)
                continue
        groups.append([chunk])
        cost = chunk.size * chunk.end
    return [sorted(group, key=lambda chunk: chunk.extent) for group in groups]


class Group:
    """Rows of one padded attention.

    size      of the extents it reads, tokens
    rows      which of the store's extents of that size: a range (which may hold others) or a list
    keys      how many keys of each it reads
    packed    (rows, queries): the packed token each query is, 0 where there is none
    real      (tokens,): which of the rows * queries are tokens, in packed order; None: all, in order
    position  (rows, queries, 1): position of each query
    """

    def __init__(self, chunks: Sequence[Chunk], first: int, device: torch.device) -> None:
        self.size = chunks[0].extent.size
        places = [chunk.extent.start // self.size for chunk in chunks]
        low, high = places[0], places[-1] + 1
        # Rows that are read in vain cost less than a copy of those that are not, up to about as many.
        dense = high - low <= 2 * len(chunks)
        row = [place - low for place in places] if dense else list(range(len(chunks)))
        rows, queries = (high - low if dense else len(chunks)), max(chunk.size for chunk in chunks)
        self.keys = max(chunk.end for chunk in chunks)
        self.rows = slice(low, high) if dense else torch.tensor(places, device=device)
        packed = np.zeros((rows, queries), dtype=np.int64)
        position = np.zeros((rows, queries), dtype=np.int64)
        if queries == 1:
            packed[row, 0] = np.arange(first, first + len(chunks))
            position[row, 0] = [chunk.start for chunk in chunks]
            real = np.array(row)
        else:
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

    @property
    def windows(self) -> set[int | None]:
        """Those that masks were asked for."""
        return {window for window, _, _ in self._masks}


class Plan:
    """One forward: packed tokens by group, then by extent.

    chunks     in packed order
    slot       (tokens,), position (tokens,): where each packed token belongs
    positions  (tokens,), on the device
    """

    def __init__(self, chunks: Sequence[Chunk], spare: int, device: torch.device) -> None:
        groups = arrange(chunks, spare)
        self.chunks = [chunk for group in groups for chunk in group]
        counts = [chunk.size for chunk in self.chunks]
        self.slot = np.repeat([chunk.slot for chunk in self.chunks], counts)
        self.position = np.repeat([chunk.end for chunk in self.chunks], counts)
        self.position += np.arange(len(self.slot)) - np.repeat(np.cumsum(counts), counts)
        self.positions = torch.from_numpy(self.position).to(device)
        self._extent = np.repeat([chunk.extent for chunk in self.chunks], counts, axis=0)
        self._places: dict[int, Tensor] = {}
        self.groups = []
        first = 0
        for group in groups:
            self.groups.append(Group(group, first, device))
            first += sum(chunk.size for chunk in group)

    @property
    def windows(self) -> set[int | None]:
        """Those that layers have attended within, of this forward."""
        return {window for group in self.groups for window in group.windows}

    def places(self, heads: int) -> Tensor:
        """(tokens * heads,): where each packed token's keys belong in a store of `heads` heads, in rows of its dim."""
        known = self._places.get(heads)
        if known is None:
            start, size = self._extent.T
            rows = (start * heads + self.position)[:, None] + size[:, None] * np.arange(heads)
            known = self._places[heads] = torch.from_numpy(rows.ravel()).to(self.positions.device)
        return known


class Store:
    """Keys or values of one layer: `tokens` tokens of `heads` heads, an extent being [heads, size, dim] on end."""

    def __init__(self, tokens: int, like: Tensor) -> None:
        _, self.heads, self.dim = like.shape
        # Zeros, not empty: what lies behind a sequence's end is masked, but 0 * nan would still be nan.
        self.flat = like.new_zeros(tokens * self.heads, self.dim)

    def write(self, places: Tensor, new: Tensor) -> None:
        """Store the packed (tokens, heads, dim)."""
        self.flat.index_copy_(0, places, new.reshape(-1, self.dim))

    def read(self, group: Group) -> Tensor:
        """(rows, heads, keys, dim) of a group."""
        extents = self.flat.view(-1, self.heads, group.size, self.dim)[:, :, : group.keys]
        return extents[group.rows] if isinstance(group.rows, slice) else extents.index_select(0, group.rows)

    def copy(self, source: Extent, target: Extent, tokens: int) -> None:
        """The first `tokens` of one extent, to the beginning of another."""
        self._of(target)[:, :tokens] = self._of(source)[:, :tokens]

    def _of(self, extent: Extent) -> Tensor:
        first = extent.start * self.heads
        return self.flat[first : first + extent.size * self.heads].view(self.heads, extent.size, self.dim)


class SlotCache(Cache):
    """Keys and values of all sequences, a pair of stores of `tokens` tokens for each layer."""

    plan: Plan

    def __init__(self, tokens: int) -> None:
        super().__init__(layers=[])
        self.tokens = tokens
        self.stores: dict[int, tuple[Store, Store]] = {}

    @property
    def token_bytes(self) -> int:
        """What one token takes, once a forward has shown the shapes."""
        stores = [store for pair in self.stores.values() for store in pair]
        return sum(store.heads * store.dim * store.flat.element_size() for store in stores)

    def copy(self, source: Extent, target: Extent, tokens: int) -> None:
        """The first `tokens` of one extent, to the beginning of another, in every layer."""
        for pair in self.stores.values():
            for store in pair:
                store.copy(source, target, tokens)

    def write(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Store a layer's packed keys and values, each (tokens, heads, dim), where the plan says."""
        if layer not in self.stores:
            self.stores[layer] = (Store(self.tokens, keys), Store(self.tokens, values))
        for store, new in zip(self.stores[layer], (keys, values), strict=True):
            store.write(self.plan.places(store.heads), new)

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """The same for Transformers' modules, each [1, heads, tokens, dim]."""
        self.write(layer_idx, key_states[0].transpose(0, 1), value_states[0].transpose(0, 1))
        return key_states, value_states

    def holds(self, layer: int, keys: Tensor, values: Tensor) -> bool:
        """Whether a layer's stores are of such heads, each [1, heads, tokens, dim]."""
        stores = self.stores.get(layer, ())
        return [(store.heads, store.dim) for store in stores] == [(x.shape[1], x.shape[3]) for x in (keys, values)]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Positions are always given, so nothing is derived from this."""
        return 0


def attend(query: Tensor, layer: int, cache: SlotCache, scale: float | None, window: int | None) -> Tensor:
    """Attention of packed queries (tokens, heads, dim) over the slots; returns the same shape.

    Query heads that share a key head are laid out as further queries of it, so that keys are read where they lie.
    """
    keys, values = cache.stores[layer]
    heads, shared = keys.heads, query.shape[1] // keys.heads
    outputs = []
    for group in cache.plan.groups:
        rows, queries = group.packed.shape
        mine = query[group.packed].transpose(1, 2).reshape(rows, heads, shared * queries, -1)
        mask = group.mask(window, shared, query.dtype)
        out = scaled_dot_product_attention(mine, keys.read(group), values.read(group), attn_mask=mask, scale=scale)
        out = out.reshape(rows, heads * shared, queries, -1).transpose(1, 2).flatten(0, 1)
        outputs.append(out if group.real is None else out[group.real])
    return torch.cat(outputs) if len(outputs) > 1 else outputs[0]


def cannot_run(model: Any, why: str) -> ConfigError:
    """What is said of a model, or a part of one, that cannot be computed over the slots."""
    return ConfigError(f"model.path: the torch engine cannot run {model.config.model_type}: {why}")


def slot_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    slot_cache: SlotCache | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """`attend` behind Transformers' attention interface: [1, heads, tokens, dim] to [1, tokens, heads, dim]."""
    layer: int = module.layer_idx  # type: ignore[assignment]
    if slot_cache is None:
        raise cannot_run(module, "it does not pass on what its attention needs")
    if not slot_cache.holds(layer, key, value):
        raise cannot_run(module, "it caches something else than its keys and values")
    mixed = attend(query[0].transpose(0, 1), layer, slot_cache, scaling, sliding_window)
    return mixed.contiguous()[None], None  # some models take views of it


AttentionInterface.register(ATTENTION, slot_attention)
