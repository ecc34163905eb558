"""The losses of a trained token, one small function each, and how tokens are averaged: pure torch, ratios in log space.

Each involves three policies: mu, which sampled the token; pi_old, the learner's before the first optimiser
step on the batch; pi, the one being optimised. docs/learner.md says when to use which.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from spade.config import Loss

# exp of more is far outside every clip range; the bound keeps an unselected branch from inf * 0.
LOG_RATIO_MAX = 20.0


class Tokens(NamedTuple):
    """The trained tokens of a micro-batch, n of them, as a loss sees them.

    current    float32, (n,): log-probabilities under pi; carries the gradient
    old        float32, (n,): under pi_old
    behaviour  float32, (n,): under mu
    advantage  float32, (n,): one value a sequence
    sequence   int64, (n,): the sequence a token belongs to, in [0, n); a sequence is whole in its micro-batch
    weight     float32, (n,): multiplies the advantage; 1 for the agent's tokens, the designer weight for a designer's
    reference  float32, (n,): log-probabilities under the reference policy; None if `loss.kl` is 0
    """

    current: Tensor
    old: Tensor
    behaviour: Tensor
    advantage: Tensor
    sequence: Tensor
    weight: Tensor
    reference: Tensor | None = None


class Losses(NamedTuple):
    """One entry a token, (n,) each.

    loss       float32, with gradient, weight and KL term included
    unweighted float32, no gradient: the same at weight 1
    clipped    bool: the clipped branch of the surrogate was selected, so the token has no gradient
    truncated  bool: its importance weight was over `loss.cap`
    masked     bool: its importance weight was out of range, and the token is left out
    kl         float32, no gradient: KL to the reference, in nats; 0 without one
    """

    loss: Tensor
    unweighted: Tensor
    clipped: Tensor
    truncated: Tensor
    masked: Tensor
    kl: Tensor


def token_losses(tokens: Tokens, settings: Loss) -> Losses:
    """Loss of every token by `settings.kind`, plus `settings.kl` times its KL to the reference if there is one.

    Every kind is linear in a positive factor of the advantage, so the weight multiplies its loss, and the KL term is
    added after it: the reference has the same pull on a designer's tokens as on an agent's.
    """
    fixed = tokens._replace(
        old=tokens.old.detach(), behaviour=tokens.behaviour.detach(), advantage=tokens.advantage.detach()
    )
    weight = tokens.weight.detach()
    losses = KINDS[settings.kind](fixed, settings)
    weighted, plain = weight * losses.loss, losses.loss.detach()
    if tokens.reference is None:
        return losses._replace(loss=weighted, unweighted=plain)
    kl = k3(tokens.current, tokens.reference.detach())
    held = settings.kl * kl
    return losses._replace(loss=weighted + held, unweighted=plain + held.detach(), kl=kl.detach())


def tis(tokens: Tokens, settings: Loss) -> Losses:
    """-w * min(r * A, clip(r, 1 - low, 1 + high) * A), w = min(pi_old / mu, cap), r = pi / pi_old; token by token.

    Clipping: PPO (arXiv:1707.06347) with the two-sided range of DAPO (arXiv:2503.14476); w: truncated importance
    sampling as in IMPALA (arXiv:1802.01561), between the policy that sampled and the one that learns.
    """
    log_w = tokens.old - tokens.behaviour
    weight = torch.exp(log_w.clamp(max=math.log(settings.cap)))
    surrogate, clipped = _surrogate(tokens.current - tokens.old, tokens.advantage, settings)
    return _losses(weight * surrogate, clipped=clipped, truncated=log_w > math.log(settings.cap))


def icepop(tokens: Tokens, settings: Loss) -> Losses:
    """As `tis`, but w = pi_old / mu where mask_low <= w <= mask_high and 0 elsewhere: such a token is left out.

    IcePop, of Ring-1T (arXiv:2510.18855). The masked tokens stay in the denominator, as there.
    """
    log_w = tokens.old - tokens.behaviour
    masked = (log_w < math.log(settings.mask_low)) | (log_w > math.log(settings.mask_high))
    weight = torch.exp(log_w.masked_fill(masked, -math.inf))
    surrogate, clipped = _surrogate(tokens.current - tokens.old, tokens.advantage, settings)
    return _losses(weight * surrogate, clipped=clipped & ~masked, masked=masked)


def sequence_tis(tokens: Tokens, settings: Loss) -> Losses:
    """As `tis`, but w is the whole sequence's: min(product of its pi_old / mu, cap), the same for all its tokens.

    The sequence-level weight that token-level ones approximate (arXiv:2512.01374), truncated against its variance
    (Ionides 2008, Journal of Computational and Graphical Statistics 17(2)).
    """
    log_w = _sequence_sum(tokens.old - tokens.behaviour, tokens.sequence)
    weight = torch.exp(log_w.clamp(max=math.log(settings.cap)))
    surrogate, clipped = _surrogate(tokens.current - tokens.old, tokens.advantage, settings)
    return _losses(weight * surrogate, clipped=clipped, truncated=log_w > math.log(settings.cap))


def cispo(tokens: Tokens, settings: Loss) -> Losses:
    """-w * A * log pi, w = min(pi / mu, cap) without gradient: the weight is cut, and no token loses its gradient.

    CISPO, of MiniMax-M1 (arXiv:2506.13585), which has no lower bound either; its 1 + epsilon_high is `cap`.
    """
    log_w = (tokens.current - tokens.behaviour).detach()
    weight = torch.exp(log_w.clamp(max=math.log(settings.cap)))
    return _losses(-weight * tokens.advantage * tokens.current, truncated=log_w > math.log(settings.cap))


def gspo(tokens: Tokens, settings: Loss) -> Losses:
    """-min(s * A, clip(s, 1 - low, 1 + high) * A), s = geometric mean of pi / mu over the token's sequence.

    GSPO (arXiv:2507.18071), which averages by sequence and clips at 3e-4 and 4e-4.
    """
    log_ratio = tokens.current - tokens.behaviour
    mean = _sequence_sum(log_ratio, tokens.sequence) / lengths(tokens.sequence)
    surrogate, clipped = _surrogate(mean, tokens.advantage, settings)
    return _losses(surrogate, clipped=clipped)


KINDS: dict[str, Callable[[Tokens, Loss], Losses]] = {
    "tis": tis,
    "icepop": icepop,
    "sequence_tis": sequence_tis,
    "cispo": cispo,
    "gspo": gspo,
}


def k3(current: Tensor, reference: Tensor) -> Tensor:
    """KL(pi || reference) of each token, estimated as q - 1 - log q with q = reference / pi: >= 0, shape (n,), nats.

    GRPO (arXiv:2402.03300), section 4.1.1.
    """
    log_q = (reference - current).clamp(max=LOG_RATIO_MAX)
    return torch.exp(log_q) - 1 - log_q


def averaged(loss: Tensor, whole: Tensor, settings: Loss) -> Tensor:
    """Each token's part of the sum that is divided by `denominator`: shape (n,).

    token      its loss: every token of the batch counts the same (DAPO, arXiv:2503.14476)
    sequence   its loss / `whole`, the trained tokens of its trajectory: every trajectory counts the same, into however
               many sequences its rewinds part it (GRPO, arXiv:2402.03300)
    """
    return loss if settings.aggregation == "token" else loss / whole


def denominator(trained_tokens: int, trajectories: int, settings: Loss) -> int:
    """The denominator of the whole batch, however it is cut: its trained tokens, or its trajectories."""
    return trained_tokens if settings.aggregation == "token" else trajectories


def lengths(sequence: Tensor) -> Tensor:
    """Number of trained tokens in the sequence of each token: float32, (n,)."""
    return _sequence_sum(torch.ones_like(sequence, dtype=torch.float32), sequence)


def _surrogate(log_ratio: Tensor, advantage: Tensor, settings: Loss) -> tuple[Tensor, Tensor]:
    """-min(r * A, clip(r) * A), and where the clipped branch was selected."""
    ratio = torch.exp(log_ratio.clamp(max=LOG_RATIO_MAX))
    clip = ratio.clamp(1 - settings.clip_low, 1 + settings.clip_high)
    over, under = math.log1p(settings.clip_high), math.log1p(-settings.clip_low)
    clipped = ((advantage > 0) & (log_ratio > over)) | ((advantage < 0) & (log_ratio < under))
    return -torch.minimum(ratio * advantage, clip * advantage), clipped


def _sequence_sum(values: Tensor, sequence: Tensor) -> Tensor:
    """Sum of `values` over the sequence of each token, (n,). Sized by n, so that no device is asked for a count."""
    return torch.zeros_like(values).index_add(0, sequence, values)[sequence]


def _losses(
    loss: Tensor, *, clipped: Tensor | None = None, truncated: Tensor | None = None, masked: Tensor | None = None
) -> Losses:
    none = torch.zeros_like(loss, dtype=torch.bool)
    return Losses(
        loss,
        unweighted=loss.detach(),
        clipped=none if clipped is None else clipped,
        truncated=none if truncated is None else truncated,
        masked=none if masked is None else masked,
        kl=torch.zeros_like(loss),
    )
