"""Log-probabilities of the distribution from which tokens are really sampled, in float32.

The engine and the learner must agree on these log-probabilities.
"""

import torch
from torch import Tensor


def log_distribution(logits: Tensor, temperature: float | Tensor) -> Tensor:
    """Return log softmax(logits / temperature) over the last axis: float32, in nats.

    logits: (…, vocabulary), any float dtype. temperature: a number, or a tensor that broadcasts against logits.
    """
    return torch.log_softmax(logits.float() / temperature, dim=-1)
