"""One forward of a Transformers model over packed sequences, and whether a model can be run so."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from actors.engines.extents import Extent, size_for
from actors.engines.slots import ATTENTION, Chunk, Plan, SlotCache
from spade.errors import ConfigError

_LAYERS = {"full_attention", "sliding_attention"}
_PROBE = 64  # tokens


def check(model: PreTrainedModel) -> int:
    """Make sure that attention over slots is the model's own; returns bytes of a token's keys. Raises ConfigError."""
    kind = model.config.model_type
    text = model.config.get_text_config()
    if not model._supports_attention_backend or not _LAYERS.issuperset(getattr(text, "layer_types", None) or []):
        raise ConfigError(f"model.path: the torch engine cannot run {kind}: it has no plain key-value cache")
    ids = torch.arange(_PROBE, device=model.device)[None] % text.vocab_size
    own = model.config._attn_implementation
    with torch.inference_mode():
        expected = model(input_ids=ids, use_cache=False).logits
        model.set_attn_implementation(ATTENTION)
        found, cache = alone(model, ids)
    tolerance = 1e-3 if expected.dtype == torch.float32 else 0.2
    if not torch.allclose(expected, found, rtol=tolerance, atol=tolerance):
        raise ConfigError(f"model.path: the torch engine cannot run {kind}: its attention is not {own} attention")
    return cache.token_bytes


def alone(model: PreTrainedModel, ids: Tensor) -> tuple[Tensor, SlotCache]:
    """Logits (1, tokens, vocabulary) of the `ids` (1, tokens) of one sequence, and the cache it has for itself."""
    count = ids.shape[1]
    cache = SlotCache(size_for(count))
    cache.plan = Plan([Chunk(0, Extent(0, cache.tokens), 0, count)], 0, model.device)
    return packed_logits(model, ids, cache), cache


def packed_logits(model: PreTrainedModel, ids: Tensor, cache: SlotCache, keep: Tensor | int = 0) -> Tensor:
    """Logits (1, kept, vocabulary) of the packed `ids` (1, tokens) under the cache's plan; 0 keeps all."""
    logits: Tensor = model(
        input_ids=ids,
        position_ids=cache.plan.positions[None],
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=keep,
        slot_cache=cache,
    ).logits
    return logits
