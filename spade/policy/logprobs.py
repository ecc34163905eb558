"""Log-probabilities of the distribution really sampled from, in float32.

Engine and learner must agree on them.
"""

import torch
from torch import Tensor


def log_distribution(logits: Tensor, temperature: float | Tensor) -> Tensor:
    """Return log softmax(logits / temperature) over the last axis: float32, in nats.

    logits: (…, vocabulary), any float dtype. temperature: a number, or a tensor that broadcasts against logits.
    """
    return torch.log_softmax(logits.float() / temperature, dim=-1)
