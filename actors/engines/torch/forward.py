"""One forward of a model over packed sequences: the fastest one that equals the model's own forward."""

from contextlib import nullcontext
from typing import Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel

from actors.engines.torch.buddy import TokenExtent, compute_size
from actors.engines.torch.dense import Dense, is_dense
from actors.engines.torch.kv_store import ATTENTION, KvStore
from actors.engines.torch.plan import Plan, TokenChunk
from spade.policy.architecture import cannot_run, check_sampled, has_sliding_window
from spade.policy.canary import spread_ids
from spade.policy.rounding import describe_odd, hold_widened, is_alike, is_as_near

_PROBE = 16  # tokens of each of two sequences


class Forward(Protocol):
    """Computes logits (kept, vocabulary) of packed `ids` (tokens,).

    `cache.plan` says where each token belongs. `keep` (kept,) lists the tokens that need logits.
    """

    def __call__(self, ids: Tensor, cache: KvStore, keep: Tensor) -> Tensor: ...


class Modules:
    """Runs a Transformers model by its own modules. Makes their attention read the store."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        model.set_attn_implementation(ATTENTION)

    def __call__(self, ids: Tensor, cache: KvStore, keep: Tensor) -> Tensor:
        logits: Tensor = self._model(
            input_ids=ids[None],
            position_ids=cache.plan.positions[None],
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=keep,
            kv_store=cache,
        ).logits
        return logits[0]


def open_forward(model: PreTrainedModel, context_tokens: int) -> tuple[Forward, KvStore]:
    """Open a forward that agrees with the model's own. Return it, and a small store with the model's shapes of keys.

    The two forwards are compared in float32. Rounding to bfloat16 would hide errors, and on some models it would look
    like an error. For a bfloat16 model, our bfloat16 forward must also be about as close to float32 as the model's own.

    Raises ConfigError if the engine cannot run the model, or if the two forwards disagree.
    """
    check_sampled(model, context_tokens)
    ids = torch.tensor(spread_ids(model, 2 * _PROBE), device=model.device).view(2, -1)
    attention = model.config._attn_implementation
    narrow = model.dtype == torch.bfloat16
    with torch.inference_mode():
        rounded = model(input_ids=ids, use_cache=False).logits if narrow else None
        with hold_widened(model) if narrow else nullcontext():
            exact = model(input_ids=ids, use_cache=False).logits
            if odd := describe_odd(exact):
                raise cannot_run(model, odd)
            forward, cache, found = _probe_logits(model, ids)
            agrees = is_alike(found, exact)
        if rounded is not None:
            model.set_attn_implementation(attention)
            forward, cache, found = _probe_logits(model, ids)
            agrees = agrees and is_as_near(found, rounded, exact)
    if not agrees:
        raise cannot_run(model, f"its logits with the key-value store are not those of its {attention} attention")
    # The probe is shorter than most windows, so the comparison would not notice a missing window.
    if (
        isinstance(forward, Modules)
        and has_sliding_window(model.config.get_text_config())
        and cache.plan.windows == {None}
    ):
        raise cannot_run(model, "it does not pass its sliding window to its attention")
    return forward, cache


def _probe_logits(model: PreTrainedModel, ids: Tensor) -> tuple[Forward, KvStore, Tensor]:
    """Open a forward of `model` in its present number format. Return the forward, its cache and its logits of `ids`."""
    forward: Forward = Dense(model) if is_dense(model) else Modules(model)
    found, cache = _compute_in_two_steps(forward, ids)
    return forward, cache, found


def compute_alone(forward: Forward, ids: Tensor) -> Tensor:
    """Return logits (tokens, vocabulary) of one sequence `ids` (tokens,), computed in a new cache."""
    count = len(ids)
    cache = KvStore(compute_size(count))
    cache.plan = Plan([TokenChunk(0, TokenExtent(0, cache.tokens), 0, count)], 0, ids.device)
    return forward(ids, cache, torch.arange(count, device=ids.device))


def _compute_in_two_steps(forward: Forward, ids: Tensor) -> tuple[Tensor, KvStore]:
    """Compute logits (sequences, tokens, vocabulary) of `ids` (sequences, tokens) in two steps.

    Returns the logits and the cache. Each step computes half of the tokens. The result differs from the model's own
    forward if sequences mix, or if the model carries state other than keys and values.
    """
    sequences, tokens = ids.shape
    size = compute_size(tokens)
    cache = KvStore(sequences * size)
    keep = torch.arange(ids.numel() // 2, device=ids.device)
    halves = []
    for start, half in zip((0, tokens // 2), ids.chunk(2, 1), strict=True):
        chunks = [
            TokenChunk(entry, TokenExtent(entry * size, size), start, half.shape[1]) for entry in range(sequences)
        ]
        cache.plan = Plan(chunks, 0, ids.device)
        halves.append(forward(half.flatten(), cache, keep).view(*half.shape, -1))
    return torch.cat(halves, 1), cache
