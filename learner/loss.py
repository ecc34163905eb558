"""The clipped surrogate under a truncated importance weight, token by token: pure torch, ratios in log space."""

import math

import torch
from torch import Tensor

from spade.config import Loss

# exp of more is far outside every clip range; held there so that an unselected branch never turns into inf * 0.
LOG_RATIO_MAX = 20.0


def tis(current: Tensor, old: Tensor, behaviour: Tensor, advantage: Tensor, settings: Loss) -> Tensor:
    """Loss of each token: -w * min(r * A, clip(r, 1 - low, 1 + high) * A), shape (n,).

    w = min(exp(old - behaviour), cap), without gradient; r = exp(current - old). Clipping: PPO, Schulman et al. 2017
    (arXiv:1707.06347) with the two-sided range of DAPO (arXiv:2503.14476); w: truncated importance sampling between the
    policy that sampled and the one that learns.

    current    float32, (n,): log-probabilities under the policy being optimised; carries the gradient
    old        float32, (n,): the same before the first optimiser step on this batch; no gradient
    behaviour  float32, (n,): log-probabilities the tokens were sampled with
    advantage  float32, (n,)
    """
    old, behaviour, advantage = old.detach(), behaviour.detach(), advantage.detach()
    weight = torch.exp((old - behaviour).clamp(max=math.log(settings.cap)))
    ratio = torch.exp((current - old).clamp(max=LOG_RATIO_MAX))
    clipped = ratio.clamp(1 - settings.clip_low, 1 + settings.clip_high)
    return -weight * torch.minimum(ratio * advantage, clipped * advantage)
