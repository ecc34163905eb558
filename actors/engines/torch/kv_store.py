"""The key-value store of the torch engine behind Transformers' Cache and attention interfaces.

Each sequence has an *entry*: its keys and values in one extent of each layer's store, shaped [heads, tokens, dim].
`update` scatters the packed keys and values of one forward into the extents. `compute_attention` reads the extents as
the plan says: by the flash kernel if it can run, else group by group.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, Cache

from actors.engines.torch import flash
from actors.engines.torch.buddy import SMALLEST, TokenExtent
from actors.engines.torch.plan import AttentionGroup
from spade.policy.architecture import cannot_run

ATTENTION = "spade_kv"


class StorePlan(Protocol):
    """The positions and places of the packed tokens of one forward; see `plan.Plan`."""

    positions: Tensor
    """(tokens,): position of each token in its sequence."""

    windows: set[int | None]
    """The attention windows that layers used in this forward."""

    @property
    def groups(self) -> Sequence[AttentionGroup]:
        """Return the padded groups, for devices without the flash kernel."""
        ...

    def places(self, heads: int) -> Tensor:
        """Return (tokens * heads,): the row of each packed token's keys in a store of `heads` heads."""
        ...

    def calls(self, heads: int) -> Sequence[flash.FlashCall]:
        """Return the calls of the flash kernel over a store of `heads` heads."""
        ...


class LayerKv:
    """Keys or values of one layer with `heads` heads.

    Consists of extents, each [heads, size, dim]. The last extent, of SMALLEST tokens, is `KvStore.spare`.
    """

    def __init__(self, flat: Tensor, heads: int) -> None:
        """Store in `flat` (rows, dim), which has a row for each token and head."""
        self.flat, self.heads, self.dim = flat, heads, flat.shape[1]

    def write(self, places: Tensor, new: Tensor) -> None:
        """Store packed keys or values (tokens, heads, dim) at `places`."""
        self.flat.index_put_((places.view(len(new), -1),), new)

    def read(self, group: AttentionGroup) -> Tensor:
        """Return keys or values (rows, heads, keys, dim) of a group."""
        extents = self.flat[: -SMALLEST * self.heads].view(-1, self.heads, group.size, self.dim)[:, :, : group.keys]
        return extents[group.rows] if isinstance(group.rows, slice) else extents.index_select(0, group.rows)


class KvStore(Cache):
    """Keys and values of all entries: for each layer, one store of `tokens` tokens for keys and one for values."""

    plan: StorePlan
    """The plan of the present forward."""

    def __init__(self, tokens: int, like: "KvStore | None" = None) -> None:
        """Allocate stores for all layers of `like`. Stores of other layers are allocated at their first write."""
        super().__init__(layers=[])
        self.tokens = tokens
        self.spare = TokenExtent(tokens, SMALLEST)
        """An extent after all extents of sequences, for keys that nobody reads."""
        self.stores: dict[int, tuple[LayerKv, LayerKv]] = {}
        self._blocks: list[tuple[int, Tensor]] = []  # (heads, all stores of one shape as a tensor)
        if like is not None:
            self._allocate(like)

    def _allocate(self, like: "KvStore") -> None:
        every = [store for pair in like.stores.values() for store in pair]
        views = {}
        for (heads, dim), count in Counter((store.heads, store.dim) for store in every).items():
            block = every[0].flat.new_zeros(count, (self.tokens + SMALLEST) * heads, dim)
            self._blocks.append((heads, block))
            views[heads, dim] = iter(block.unbind())
        for layer, (keys, values) in like.stores.items():
            self.stores[layer] = (
                LayerKv(next(views[keys.heads, keys.dim]), keys.heads),
                LayerKv(next(views[values.heads, values.dim]), values.heads),
            )

    @property
    def token_bytes(self) -> int:
        """Return the bytes of one token. Valid after a first forward, which shows the shapes."""
        stores = [store for pair in self.stores.values() for store in pair]
        return sum(store.heads * store.dim * store.flat.element_size() for store in stores)

    def copy(self, source: TokenExtent, target: TokenExtent, tokens: int) -> None:
        """Copy the first `tokens` of one extent to the beginning of another, in all layers that `like` had."""
        for heads, block in self._blocks:
            old, new = (
                block[:, extent.start * heads : (extent.start + extent.size) * heads].view(
                    len(block), heads, extent.size, -1
                )
                for extent in (source, target)
            )
            new[:, :, :tokens] = old[:, :, :tokens]

    def write(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Store a layer's packed keys and values, each (tokens, heads, dim), at the places of the plan."""
        if layer not in self.stores:
            self.stores[layer] = (self._open(keys), self._open(values))
        for store, new in zip(self.stores[layer], (keys, values), strict=True):
            store.write(self.plan.places(store.heads), new)

    def _open(self, like: Tensor) -> LayerKv:
        """Open a store for keys or values with the dtype, heads and dim of `like` (tokens, heads, dim)."""
        _, heads, dim = like.shape
        # Use zeros, not empty memory. Places after a sequence's end are masked, but 0 * nan would still be nan.
        return LayerKv(like.new_zeros((self.tokens + SMALLEST) * heads, dim), heads)

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Store keys and values from Transformers' modules, each [1, heads, tokens, dim]."""
        self.write(layer_idx, key_states[0].transpose(0, 1), value_states[0].transpose(0, 1))
        return key_states, value_states

    def holds(self, layer: int, keys: Tensor, values: Tensor) -> bool:
        """Return True if the layer's stores match the heads and dims of `keys` and `values`.

        Each of them is [1, heads, tokens, dim].
        """
        stores = self.stores.get(layer, ())
        return [(store.heads, store.dim) for store in stores] == [(x.shape[1], x.shape[3]) for x in (keys, values)]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return 0. Positions are always given, so Transformers derives nothing from this number."""
        return 0


def compute_attention(query: Tensor, layer: int, cache: KvStore, scale: float | None, window: int | None) -> Tensor:
    """Compute attention of packed queries (tokens, heads, dim) over the store. Return the same shape.

    Query heads that share a key head become further queries of this key head. So keys are read without being repeated.
    """
    keys, values = cache.stores[layer]
    heads, shared = keys.heads, query.shape[1] // keys.heads
    cache.plan.windows.add(window)
    if keys.dim == values.dim and flash.can_run(query.device, query.dtype, keys.dim):
        return flash.compute_flash(query, keys.flat, values.flat, heads, cache.plan.calls(heads), scale, window)
    outputs = []
    for group in cache.plan.groups:
        rows, queries = group.packed.shape
        mine = query[group.packed].transpose(1, 2).reshape(rows, heads, shared * queries, -1)
        mask = group.mask(window, shared, query.dtype)
        out = scaled_dot_product_attention(mine, keys.read(group), values.read(group), attn_mask=mask, scale=scale)
        out = out.reshape(rows, heads * shared, queries, -1).transpose(1, 2).flatten(0, 1)
        outputs.append(out if group.real is None else out[group.real])
    return torch.cat(outputs) if len(outputs) > 1 else outputs[0]


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
    """Implement Transformers' attention by `compute_attention`: [1, heads, tokens, dim] to [1, tokens, heads, dim]."""
    layer: int = module.layer_idx  # type: ignore[assignment]
    if kv_store is None:
        raise cannot_run(module, "it does not pass the key-value store to its attention")
    if not kv_store.holds(layer, key, value):
        raise cannot_run(module, "it caches something else than its keys and values")
    mixed = compute_attention(query[0].transpose(0, 1), layer, kv_store, scaling, sliding_window)
    return mixed.contiguous()[None], None  # some models need this layout, because they take views of it


AttentionInterface.register(ATTENTION, store_attention)
