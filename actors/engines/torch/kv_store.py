"""The key-value store of the torch engine behind Transformers' Cache and attention interfaces.

A sequence has an *entry*: its keys and values, in one extent of each layer's store, [heads, tokens, dim], as long as
there is room. `update` scatters the packed keys and values of one forward into the extents, `attend` reads them group
by group, as its plan says.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, Cache

from actors.engines.torch.buddy import TokenExtent
from actors.engines.torch.plan import AttentionGroup, Plan
from spade.errors import ConfigError

ATTENTION = "spade_kv"


class LayerKv:
    """Keys or values of one layer: `tokens` tokens of `heads` heads, an extent being [heads, size, dim] on end."""

    def __init__(self, tokens: int, like: Tensor) -> None:
        _, self.heads, self.dim = like.shape
        # Zeros, not empty: what lies behind a sequence's end is masked, but 0 * nan would still be nan.
        self.flat = like.new_zeros(tokens * self.heads, self.dim)

    def write(self, places: Tensor, new: Tensor) -> None:
        """Store the packed (tokens, heads, dim)."""
        self.flat.index_copy_(0, places, new.reshape(-1, self.dim))

    def read(self, group: AttentionGroup) -> Tensor:
        """(rows, heads, keys, dim) of a group."""
        extents = self.flat.view(-1, self.heads, group.size, self.dim)[:, :, : group.keys]
        return extents[group.rows] if isinstance(group.rows, slice) else extents.index_select(0, group.rows)

    def copy(self, source: TokenExtent, target: TokenExtent, tokens: int) -> None:
        """The first `tokens` of one extent, to the beginning of another."""
        self._of(target)[:, :tokens] = self._of(source)[:, :tokens]

    def _of(self, extent: TokenExtent) -> Tensor:
        first = extent.start * self.heads
        return self.flat[first : first + extent.size * self.heads].view(self.heads, extent.size, self.dim)


class KvStore(Cache):
    """Keys and values of all entries: a pair of stores of `tokens` tokens for each layer."""

    plan: Plan

    def __init__(self, tokens: int) -> None:
        super().__init__(layers=[])
        self.tokens = tokens
        self.stores: dict[int, tuple[LayerKv, LayerKv]] = {}

    @property
    def token_bytes(self) -> int:
        """Bytes of one token, once a forward has shown the shapes."""
        stores = [store for pair in self.stores.values() for store in pair]
        return sum(store.heads * store.dim * store.flat.element_size() for store in stores)

    def copy(self, source: TokenExtent, target: TokenExtent, tokens: int) -> None:
        """The first `tokens` of one extent, to the beginning of another, in every layer."""
        for pair in self.stores.values():
            for store in pair:
                store.copy(source, target, tokens)

    def write(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Store a layer's packed keys and values, each (tokens, heads, dim), where the plan says."""
        if layer not in self.stores:
            self.stores[layer] = (LayerKv(self.tokens, keys), LayerKv(self.tokens, values))
        for store, new in zip(self.stores[layer], (keys, values), strict=True):
            store.write(self.plan.places(store.heads), new)

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """The same for Transformers' modules, each [1, heads, tokens, dim]."""
        self.write(layer_idx, key_states[0].transpose(0, 1), value_states[0].transpose(0, 1))
        return key_states, value_states

    def holds(self, layer: int, keys: Tensor, values: Tensor) -> bool:
        """True if a layer's stores have such heads, each [1, heads, tokens, dim]."""
        stores = self.stores.get(layer, ())
        return [(store.heads, store.dim) for store in stores] == [(x.shape[1], x.shape[3]) for x in (keys, values)]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Positions are always given, so nothing is derived from this."""
        return 0


def attend(query: Tensor, layer: int, cache: KvStore, scale: float | None, window: int | None) -> Tensor:
    """Attention of packed queries (tokens, heads, dim) over the store; returns the same shape.

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
    """The error of a model, or a part of one, that cannot be computed over the store."""
    return ConfigError(f"model.path: the torch engine cannot run {model.config.model_type}: {why}")


def store_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    kv_store: KvStore | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """`attend` behind Transformers' attention interface: [1, heads, tokens, dim] to [1, tokens, heads, dim]."""
    layer: int = module.layer_idx  # type: ignore[assignment]
    if kv_store is None:
        raise cannot_run(module, "it does not pass on what its attention needs")
    if not kv_store.holds(layer, key, value):
        raise cannot_run(module, "it caches something else than its keys and values")
    mixed = attend(query[0].transpose(0, 1), layer, kv_store, scaling, sliding_window)
    return mixed.contiguous()[None], None  # some models take views of it


AttentionInterface.register(ATTENTION, store_attention)
