"""The losses of a trained token, one function each, and the average over tokens. Pure torch, with ratios in log space.

Each loss involves three policies:

mu      the policy that sampled the token
pi_old  the learner's policy before the first optimiser step on the batch
pi      the policy being optimised

docs/learner.md says when to use which loss.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from spade.config import Loss

# Log-ratios are cut at this value. The ratio is then far outside every clip range. Without the bound, inf * 0 could
# occur in a branch that is not selected.
LOG_RATIO_MAX = 20.0
MASK_LOW, MASK_HIGH = 0.5, 5.0  # the bounds of INTELLECT-3 (arXiv:2512.16144)


class Tokens(NamedTuple):
    """The n trained tokens of a micro-batch, as a loss sees them."""

    current: Tensor
    """float32, (n,): log-probabilities under pi. They carry the gradient."""
    old: Tensor
    """float32, (n,): log-probabilities under pi_old."""
    behaviour: Tensor
    """float32, (n,): log-probabilities under mu."""
    advantage: Tensor
    """float32, (n,): advantages, the same for all tokens of a sequence."""
    sequence: Tensor
    """int64, (n,): index of the token's sequence, in [0, n). A micro-batch has all tokens of its sequences."""
    weight: Tensor
    """float32, (n,): factor of the advantage: 1 for an agent's token, the designer weight for a designer's."""
    reference: Tensor | None = None
    """float32, (n,): log-probabilities under the reference policy; None if `loss.kl` is 0."""


class Losses(NamedTuple):
    """The losses of n tokens. Each field has one entry for each token: (n,)."""

    loss: Tensor
    """float32: the loss with weight and KL term. It carries the gradient."""
    unweighted: Tensor
    """float32, no gradient: the same loss at weight 1."""
    clipped: Tensor
    """bool: the clipped branch of the surrogate was selected, so the token has no gradient."""
    truncated: Tensor
    """bool: the importance weight was over `loss.cap`."""
    masked: Tensor
    """bool: the importance weight was out of range, so the token is left out."""
    kl: Tensor
    """float32, no gradient: KL to the reference policy, in nats; 0 without a reference."""


def compute_token_losses(tokens: Tokens, settings: Loss) -> Losses:
    """Return the loss of every token by `settings.kind`, plus `settings.kl` times its KL to the reference, if any.

    Every kind is linear in a positive factor of the advantage, so the weight multiplies the loss. The KL term is added
    afterwards, so the reference pulls a designer's tokens as strongly as an agent's.
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
    penalty = settings.kl * kl
    return losses._replace(loss=weighted + penalty, unweighted=plain + penalty.detach(), kl=kl.detach())


def tis(tokens: Tokens, settings: Loss) -> Losses:
    """Return -w * min(r * A, clip(r, 1 - low, 1 + high) * A), w = min(pi_old / mu, cap), r = pi / pi_old, by token.

    Clipping is PPO's (arXiv:1707.06347) with the two-sided range of DAPO (arXiv:2503.14476). The weight w is truncated
    importance sampling as in IMPALA (arXiv:1802.01561), between the sampling policy and the learner's.
    """
    log_w = tokens.old - tokens.behaviour
    weight = torch.exp(log_w.clamp(max=math.log(settings.cap)))
    surrogate, clipped = _compute_surrogate(tokens.current - tokens.old, tokens.advantage, settings)
    return _make_losses(weight * surrogate, clipped=clipped, truncated=log_w > math.log(settings.cap))


def icepop(tokens: Tokens, settings: Loss) -> Losses:
    """Return the loss of `tis` with w = pi_old / mu if MASK_LOW <= w <= MASK_HIGH, else 0, which leaves the token out.

    This is IcePop, of Ring-1T (arXiv:2510.18855). As in that paper, the masked tokens stay in the denominator.
    """
    log_w = tokens.old - tokens.behaviour
    masked = (log_w < math.log(MASK_LOW)) | (log_w > math.log(MASK_HIGH))
    weight = torch.exp(log_w.masked_fill(masked, -math.inf))
    surrogate, clipped = _compute_surrogate(tokens.current - tokens.old, tokens.advantage, settings)
    return _make_losses(weight * surrogate, clipped=clipped & ~masked, masked=masked)


def sequence_tis(tokens: Tokens, settings: Loss) -> Losses:
    """Return the loss of `tis` with one w for all tokens of a sequence: min(product of pi_old / mu over them, cap).

    Token-level weights approximate this sequence-level weight (arXiv:2512.01374). It is truncated to bound its variance
    (Ionides 2008, Journal of Computational and Graphical Statistics 17(2)).
    """
    log_w = _sum_by_sequence(tokens.old - tokens.behaviour, tokens.sequence)
    weight = torch.exp(log_w.clamp(max=math.log(settings.cap)))
    surrogate, clipped = _compute_surrogate(tokens.current - tokens.old, tokens.advantage, settings)
    return _make_losses(weight * surrogate, clipped=clipped, truncated=log_w > math.log(settings.cap))


def cispo(tokens: Tokens, settings: Loss) -> Losses:
    """Return -w * A * log pi, w = min(pi / mu, cap) without gradient. Only the weight is truncated, so every token has
    a gradient.

    This is CISPO, of MiniMax-M1 (arXiv:2506.13585). As there, the weight has no lower bound. `cap` is the paper's
    1 + epsilon_high.
    """
    log_w = (tokens.current - tokens.behaviour).detach()
    weight = torch.exp(log_w.clamp(max=math.log(settings.cap)))
    return _make_losses(-weight * tokens.advantage * tokens.current, truncated=log_w > math.log(settings.cap))


def gspo(tokens: Tokens, settings: Loss) -> Losses:
    """Return -min(s * A, clip(s, 1 - low, 1 + high) * A), s = geometric mean of pi / mu over the token's sequence.

    This is GSPO (arXiv:2507.18071). The paper averages by sequence and clips at 3e-4 and 4e-4.
    """
    log_ratio = tokens.current - tokens.behaviour
    mean = _sum_by_sequence(log_ratio, tokens.sequence) / count_lengths(tokens.sequence)
    surrogate, clipped = _compute_surrogate(mean, tokens.advantage, settings)
    return _make_losses(surrogate, clipped=clipped)


KINDS: dict[str, Callable[[Tokens, Loss], Losses]] = {
    "tis": tis,
    "icepop": icepop,
    "sequence_tis": sequence_tis,
    "cispo": cispo,
    "gspo": gspo,
}


def k3(current: Tensor, reference: Tensor) -> Tensor:
    """Return (n,): each token's KL(pi || reference) in nats, estimated as q - 1 - log q >= 0 with q = reference / pi.

    GRPO (arXiv:2402.03300), section 4.1.1.
    """
    log_q = (reference - current).clamp(max=LOG_RATIO_MAX)
    return torch.exp(log_q) - 1 - log_q


def average_loss(loss: Tensor, whole: Tensor, settings: Loss) -> Tensor:
    """Return what each token adds to the numerator of the mean loss: shape (n,). See `compute_denominator`.

    With aggregation "token", this is the loss, so every token of the batch counts the same (DAPO,
    arXiv:2503.14476). With "sequence", it is the loss divided by `whole`, the number of trained tokens of the
    trajectory. So every trajectory counts the same, even if rewinds split it into several sequences (GRPO,
    arXiv:2402.03300).
    """
    return loss if settings.aggregation == "token" else loss / whole


def compute_denominator(trained_tokens: int, trajectories: int, settings: Loss) -> int:
    """Return the denominator of the mean loss over a batch: its number of trained tokens, or of trajectories."""
    return trained_tokens if settings.aggregation == "token" else trajectories


def count_lengths(sequence: Tensor) -> Tensor:
    """Return the number of trained tokens in the sequence of each token: float32, (n,)."""
    return _sum_by_sequence(torch.ones_like(sequence, dtype=torch.float32), sequence)


def _compute_surrogate(log_ratio: Tensor, advantage: Tensor, settings: Loss) -> tuple[Tensor, Tensor]:
    """Return -min(r * A, clip(r) * A), and for each token True if the clipped branch was selected."""
    ratio = torch.exp(log_ratio.clamp(max=LOG_RATIO_MAX))
    clip = ratio.clamp(1 - settings.clip_low, 1 + settings.clip_high)
    over, under = math.log1p(settings.clip_high), math.log1p(-settings.clip_low)
    clipped = ((advantage > 0) & (log_ratio > over)) | ((advantage < 0) & (log_ratio < under))
    return -torch.minimum(ratio * advantage, clip * advantage), clipped


def _sum_by_sequence(values: Tensor, sequence: Tensor) -> Tensor:
    """Return the sum of `values` over the sequence of each token: (n,).

    The sums are stored by sequence in a tensor of n entries, so the host need not wait for a count from the device.
    """
    return torch.zeros_like(values).index_add(0, sequence, values)[sequence]


def _make_losses(
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
