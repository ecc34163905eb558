"""Compute log-probabilities of the trained tokens only, without all logits of a micro-batch in memory at once."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding
from torch.utils.checkpoint import checkpoint

from learner.batch import MicroBatch
from learner.models.attention import Segments
from learner.models.compiled import compile_function
from spade.errors import RunError
from spade.policy.architecture import make_scaled_error
from spade.policy.logprobs import log_distribution
from spade.policy.rounding import describe_odd

# Most logits in memory at once. If the trained tokens make several chunks, each is computed again for its gradient.
LOGITS = 1 << 26
GPU_LOGITS = 1 << 28


def compute_trained_logprobs(model: Any, micro: MicroBatch) -> tuple[Tensor, Tensor]:
    """Return the log-probability of each trained token and the entropy at its position, at its sampling temperature.

    Both are float32, (n,), in nats. The entropy carries no gradient. `model` is a Hugging Face causal language model.
    Its logits must be the plain output of its head (`check_head` refuses other models).
    """
    row = model.base_model(
        input_ids=micro.ids[None],
        position_ids=micro.positions[None],
        use_cache=False,
        packed_segments=Segments(micro.lengths, micro.parents),
    ).last_hidden_state
    # Several trained tokens may follow one position. The gradient of an embedding sums them in a fixed order, on any
    # device and with any number of threads. The gradient of indexing does not.
    hidden = embedding(micro.at, row[0])
    head = model.get_output_embeddings()
    count = len(micro.target)
    if _fits_fusion(head, hidden):
        fused: tuple[Tensor, Tensor] = _Score.apply(  # type: ignore[no-untyped-call]
            hidden, head.weight, micro.target, micro.temperature
        )
        return fused
    chunk = max(1, LOGITS // head.out_features)  # the weight may be sharded, so read its shape from the module
    if count <= chunk:
        return _score(head, hidden, micro.target, micro.temperature)
    parts = [
        checkpoint(
            _score, head, hidden[at : at + chunk], micro.target[at : at + chunk], micro.temperature[at : at + chunk],
            use_reentrant=False, preserve_rng_state=False,
        )
        for at in range(0, count, chunk)
    ]  # fmt: skip
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def _score(head: Any, hidden: Tensor, target: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor]:
    return _measure(head(hidden), target, temperature)


def _measure(logits: Tensor, target: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor]:
    distribution = log_distribution(logits, temperature[:, None])
    with torch.no_grad():
        entropy = -(distribution.exp() * distribution).sum(-1)
    return distribution.gather(-1, target[:, None]).squeeze(-1), entropy


def _differentiate(logits: Tensor, target: Tensor, temperature: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient of the logits, in their dtype, given the `gradient` of the log-probabilities.

    With p = softmax(logits / t), the derivative of a log-probability is (one-hot of the target - p) / t.
    """
    hit = torch.arange(logits.shape[-1], device=logits.device) == target[:, None]
    missing = hit.float() - log_distribution(logits, temperature[:, None]).exp()
    return (missing * (gradient / temperature)[:, None]).to(logits.dtype)


def _fits_fusion(head: Any, hidden: Tensor) -> bool:
    """Return True if `_Score` can compute this head.

    It needs a GPU without autocast, and a head that is a plain, unsharded matrix in the dtype of `hidden`.
    """
    return (
        hidden.is_cuda
        and not torch.is_autocast_enabled("cuda")
        and head.bias is None
        and type(head) is torch.nn.Linear
        and head.weight.shape == (head.out_features, head.in_features)
        and head.weight.dtype == hidden.dtype
    )


class _Score(torch.autograd.Function):
    """Computes `_score` in chunks, and each chunk again for the gradient. Sums the head's gradient in float32."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, target: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(hidden, weight, target, temperature)
        scores, entropies = torch.empty_like(temperature), torch.empty_like(temperature)
        measure = compile_function(_measure)
        for part in _cut(hidden, weight):
            scores[part], entropies[part] = measure(hidden[part] @ weight.T, target[part], temperature[part])
        ctx.mark_non_differentiable(entropies)
        return scores, entropies

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        hidden, weight, target, temperature = ctx.saved_tensors
        differentiate, of_hidden = compile_function(_differentiate), torch.empty_like(hidden)
        of_weight = torch.zeros_like(weight, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        for part in _cut(hidden, weight):
            of_logits = differentiate(hidden[part] @ weight.T, target[part], temperature[part], gradient[part])
            torch.mm(of_logits, weight, out=of_hidden[part])
            if of_weight is not None:
                of_weight += of_logits.T @ hidden[part]
        return of_hidden, None if of_weight is None else of_weight.to(weight.dtype), None, None


def _cut(hidden: Tensor, weight: Tensor) -> list[slice]:
    size = max(1, GPU_LOGITS // len(weight))
    return [slice(at, at + size) for at in range(0, len(hidden), size)]


@torch.no_grad()
def check_head(model: Any) -> None:
    """Raise RunError if a model scales or caps its logits after the head, or if they are all zero or not finite."""
    ids = torch.arange(4, device=model.device)[None]
    hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    plain, whole = model.get_output_embeddings()(hidden).float(), model(input_ids=ids, use_cache=False).logits.float()
    if odd := describe_odd(whole):
        raise RunError(
            f"model.path: the learner cannot train {model.config.model_type}: {odd}; give a sound checkpoint"
        )
    if not torch.allclose(plain, whole, rtol=1e-3, atol=1e-3):
        raise make_scaled_error(model)
