"""Log-probabilities of the trained tokens alone. The logits of a whole micro-batch are never in memory at once."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding
from torch.utils.checkpoint import checkpoint

from learner.batch import MicroBatch
from learner.models.attention import Segments
from spade.errors import RunError
from spade.policy.logprobs import log_distribution

# Logits in memory at once (elements). If there are several chunks, each is computed again for its gradient.
LOGITS = 1 << 26


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
    chunk = max(1, LOGITS // head.out_features)  # its weight may be sharded
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
    distribution = log_distribution(head(hidden), temperature[:, None])
    with torch.no_grad():
        entropy = -(distribution.exp() * distribution).sum(-1)
    return distribution.gather(-1, target[:, None]).squeeze(-1), entropy


@torch.no_grad()
def check_head(model: Any) -> None:
    """Refuse a model that scales or caps its logits after the head. Raises RunError."""
    ids = torch.arange(4, device=model.device)[None]
    hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    plain, whole = model.get_output_embeddings()(hidden).float(), model(input_ids=ids, use_cache=False).logits.float()
    if not torch.allclose(plain, whole, rtol=1e-3, atol=1e-3):
        raise RunError(
            f"model.path: {model.config.model_type} changes its logits after the output head, which the learner does "
            "not follow; use a model without logit scaling or soft-capping"
        )
