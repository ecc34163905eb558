"""Compute the metrics of a learner step: sums over tokens, micro-batches and optimiser steps, then means."""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from learner.batch import MicroBatch, PreparedStep
from learner.loss import Losses, compute_denominator
from spade.config import Loss
from spade.protocol import StepMetrics

# Tokens are counted separately for this many lags, from 0. The last count includes all greater lags.
LAGS = 16


@dataclass
class Totals:
    """Sums over the trained tokens so far."""

    version: int
    """Policy version that the batch is trained at. Lags are counted from this version."""
    tokens: int = 0
    """Number of trained tokens. Each token counts once per optimiser step."""
    agent_tokens: int = 0
    """Number of these tokens that agents sampled."""
    loss: float = 0.0
    """Sum of what the tokens add to the mean loss (`loss.average_loss`)."""
    loss_agent: float = 0.0
    """Sum of the unweighted losses of the agents' tokens."""
    loss_designer: float = 0.0
    """Sum of the unweighted losses of the designers' tokens."""
    clipped: float = 0.0
    """Number of tokens with a clipped surrogate."""
    truncated: float = 0.0
    """Number of tokens with an importance weight over `loss.cap`."""
    masked: float = 0.0
    """Number of tokens that the loss left out."""
    mismatch: float = 0.0
    """Sum of the absolute differences between the log-probabilities under pi_old and mu, in nats."""
    entropy: float = 0.0
    """Sum of the entropies, in nats."""
    kl: float = 0.0
    """Sum of the KL to the reference, in nats."""
    log_w: float = -math.inf
    """Log of the sum of importance weights pi_old / mu."""
    log_w2: float = -math.inf
    """Log of the sum of squared importance weights."""
    lag_tokens: tuple[float, ...] = (0.0,) * LAGS
    """Number of tokens with each lag, (LAGS,)."""
    lag_mismatch: tuple[float, ...] = (0.0,) * LAGS
    """Sum of `mismatch` over the tokens with each lag, (LAGS,)."""

    @torch.no_grad()
    def add(self, micro: MicroBatch, losses: Losses, loss: Tensor, old: Tensor, entropy: Tensor) -> None:
        """Add one micro-batch. All tensors are float32, (n,). `loss` comes from `average_loss`, `entropy` is in nats.

        All sums are read back in one transfer, so that the process waits for an accelerator only once.
        """
        log_w = (old - micro.behaviour).double()
        agent = ~micro.designer
        sums = (
            loss, losses.unweighted * agent, losses.unweighted * micro.designer, losses.clipped,
            losses.truncated, log_w.abs(), entropy, agent, losses.masked, losses.kl,
        )  # fmt: skip
        values = [value.double().sum() for value in sums] + [torch.logsumexp(k * log_w, 0) for k in (1, 2)]
        lag = (self.version - micro.version).clamp(0, LAGS - 1)
        lags = torch.zeros(2, LAGS, dtype=torch.float64, device=lag.device)
        lags[0].index_add_(0, lag, torch.ones_like(log_w))
        lags[1].index_add_(0, lag, log_w.abs())
        read = torch.cat((torch.stack(values), lags.flatten())).tolist()
        self.tokens += len(old)
        self.loss += read[0]
        self.loss_agent += read[1]
        self.loss_designer += read[2]
        self.clipped += read[3]
        self.truncated += read[4]
        self.mismatch += read[5]
        self.entropy += read[6]
        self.agent_tokens += round(read[7])
        self.masked += read[8]
        self.kl += read[9]
        self.log_w = _log_add(self.log_w, read[10])
        self.log_w2 = _log_add(self.log_w2, read[11])
        self.lag_tokens = _sum(self.lag_tokens, read[12 : 12 + LAGS])
        self.lag_mismatch = _sum(self.lag_mismatch, read[12 + LAGS :])

    def numbers(self) -> list[float]:
        """Return all sums as one list for `include`."""
        sums = [getattr(self, one.name) for one in fields(self) if one.name != "version"]
        return [float(number) for each in sums for number in (each if isinstance(each, tuple) else (each,))]

    def include(self, numbers: Sequence[float]) -> None:
        """Add the sums of another process for the same batch, as `numbers` returned them there."""
        rest = iter(numbers)
        for name in (one.name for one in fields(self) if one.name != "version"):
            match getattr(self, name):
                case tuple() as mine:
                    setattr(self, name, tuple(number + next(rest) for number in mine))
                case int() as mine:
                    setattr(self, name, mine + round(next(rest)))
                case mine:
                    add = _log_add if name in ("log_w", "log_w2") else operator.add
                    setattr(self, name, add(mine, next(rest)))

    def metrics(self, work: PreparedStep, settings: Loss, grad_norm: float, skipped: int, lr: float) -> StepMetrics:
        """Return means over tokens. A role's loss is the mean over the role's tokens, or 0 if the batch lacks the role.

        The effective sample share is Kish's (sum w)^2 / (n * sum w^2) of the importance weights before truncation.
        `skipped` counts the optimiser steps left out because of a non-finite gradient. `lr` is the learning rate of the
        step. Non-finite figures become 0.
        """
        passes = self.tokens // work.trained_tokens
        count = passes * compute_denominator(
            work.trained_tokens, work.agent_sequences + work.designer_sequences, settings
        )
        lags = max((lag + 1 for lag, tokens in enumerate(self.lag_tokens) if tokens), default=0)
        return StepMetrics(
            loss=_make_finite(self.loss / count),
            loss_agent=_make_finite(self.loss_agent / max(self.agent_tokens, 1)),
            loss_designer=_make_finite(self.loss_designer / max(self.tokens - self.agent_tokens, 1)),
            grad_norm=_make_finite(grad_norm),
            clip_fraction=self.clipped / self.tokens,
            truncated_fraction=self.truncated / self.tokens,
            effective_sample_share=_make_finite(math.exp(2 * self.log_w - self.log_w2) / self.tokens),
            mismatch=_make_finite(self.mismatch / self.tokens),
            entropy=_make_finite(self.entropy / self.tokens),
            agent_sequences=work.agent_sequences,
            designer_sequences=work.designer_sequences,
            designer_weight=work.designer_weight,
            trained_tokens=work.trained_tokens,
            skipped=skipped,
            masked_fraction=self.masked / self.tokens,
            kl=_make_finite(self.kl / self.tokens),
            lr=lr,
            tokens_by_lag=tuple(round(tokens / passes) for tokens in self.lag_tokens[:lags]),
            mismatch_by_lag=tuple(
                _make_finite(total / max(tokens, 1))
                for total, tokens in zip(self.lag_mismatch[:lags], self.lag_tokens[:lags], strict=True)
            ),
            computed_fraction=work.computed_tokens / work.read_tokens,
            read_tokens=work.read_tokens,
        )


def _sum(left: Sequence[float], right: Sequence[float]) -> tuple[float, ...]:
    return tuple(a + b for a, b in zip(left, right, strict=True))


def _log_add(left: float, right: float) -> float:
    """Return log(exp(left) + exp(right))."""
    high, low = max(left, right), min(left, right)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


def _make_finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0
