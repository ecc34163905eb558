"""One forward of a model over packed sequences: the quickest that computes what the model's own forward does."""

from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel

from actors.engines.dense import Dense, is_dense
from actors.engines.extents import Extent, size_for
from actors.engines.slots import ATTENTION, Chunk, Plan, SlotCache
from spade.errors import ConfigError
from spade.policy.rounding import alike

_LAYERS = {"full_attention", "sliding_attention"}
_SHIFTING = {"dynamic", "longrope"}  # rotations that change as the longest sequence grows
_PROBE = 64  # tokens


class Forward(Protocol):
    """Logits (kept, vocabulary) of packed `ids` (tokens,) under the cache's plan; `keep` (kept,) says of which."""

    def __call__(self, ids: Tensor, cache: SlotCache, keep: Tensor) -> Tensor: ...


class Modules:
    """The modules of any Transformers model, whose attention is over the slots from now on."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        model.set_attn_implementation(ATTENTION)

    def __call__(self, ids: Tensor, cache: SlotCache, keep: Tensor) -> Tensor:
        logits: Tensor = self._model(
            input_ids=ids[None],
            position_ids=cache.plan.positions[None],
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=keep,
            slot_cache=cache,
        ).logits
        return logits[0]


def open_forward(model: PreTrainedModel) -> tuple[Forward, int]:
    """A forward that agrees with the model's own, and bytes of a token's keys and values. Raises ConfigError."""
    kind = model.config.model_type
    text = model.config.get_text_config()
    if not model._supports_attention_backend or not _LAYERS.issuperset(getattr(text, "layer_types", None) or []):
        raise ConfigError(f"model.path: the torch engine cannot run {kind}: it has no plain key-value cache")
    if not _SHIFTING.isdisjoint(_rotations(text)):
        raise ConfigError(
            f"model.path: the torch engine cannot run {kind}: its positions turn with the longest sequence"
        )
    ids = torch.arange(_PROBE, device=model.device) % text.vocab_size
    own = model.config._attn_implementation
    with torch.inference_mode():
        expected = model(input_ids=ids[None], use_cache=False).logits[0]
        forward: Forward = Dense(model) if is_dense(model) else Modules(model)
        found, cache = alone(forward, ids)
    if not alike(found, expected):
        raise ConfigError(f"model.path: the torch engine cannot run {kind}: its attention is not {own} attention")
    return forward, cache.token_bytes


def _rotations(config: Any) -> set[str]:
    """The kinds of rotary positions, of all layers or by their kind."""
    rope = getattr(config, "rope_parameters", None) or {}
    return {kind for each in (rope, *rope.values()) if isinstance(each, dict) and (kind := each.get("rope_type"))}


def alone(forward: Forward, ids: Tensor) -> tuple[Tensor, SlotCache]:
    """Logits (tokens, vocabulary) of the `ids` (tokens,) of one sequence, and the cache it has for itself."""
    count = len(ids)
    cache = SlotCache(size_for(count))
    cache.plan = Plan([Chunk(0, Extent(0, cache.tokens), 0, count)], 0, ids.device)
    return forward(ids, cache, torch.arange(count, device=ids.device)), cache
