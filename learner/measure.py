"""What a learner step reports: sums over tokens, added up over micro-batches and optimiser steps, then means."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from learner.batch import MicroBatch, Prepared
from spade.config import Loss
from spade.protocol import StepMetrics


@dataclass
class Totals:
    """Sums over the trained tokens so far; `log_w`, `log_w2`: logs of the sums of weights and of their squares."""

    tokens: int = 0
    agent_tokens: int = 0
    loss: float = 0.0
    loss_agent: float = 0.0
    loss_designer: float = 0.0
    clipped: float = 0.0
    truncated: float = 0.0
    mismatch: float = 0.0
    entropy: float = 0.0
    log_w: float = -math.inf
    log_w2: float = -math.inf

    @torch.no_grad()
    def add(
        self, micro: MicroBatch, losses: Tensor, current: Tensor, old: Tensor, entropy: Tensor, settings: Loss
    ) -> None:
        """Count one micro-batch. All tensors float32, (n,); `losses` before the designer weight, `entropy` in nats.

        The sums are read back in one transfer, so that an accelerator is waited for once.
        """
        log_w = (old - micro.behaviour).double()
        log_r = current - old
        agent = ~micro.designer
        up, down = micro.advantage > 0, micro.advantage < 0
        clipped = (up & (log_r > math.log1p(settings.clip_high))) | (down & (log_r < math.log1p(-settings.clip_low)))
        sums = (
            losses * micro.weight, losses * agent, losses * micro.designer, clipped, log_w > math.log(settings.cap),
            log_w.abs(), entropy, agent,
        )  # fmt: skip
        values = [value.double().sum() for value in sums] + [torch.logsumexp(k * log_w, 0) for k in (1, 2)]
        read = torch.stack(values).tolist()
        self.tokens += len(losses)
        self.loss += read[0]
        self.loss_agent += read[1]
        self.loss_designer += read[2]
        self.clipped += read[3]
        self.truncated += read[4]
        self.mismatch += read[5]
        self.entropy += read[6]
        self.agent_tokens += round(read[7])
        self.log_w = _log_add(self.log_w, read[8])
        self.log_w2 = _log_add(self.log_w2, read[9])

    def metrics(self, work: Prepared, grad_norm: float, skipped: int) -> StepMetrics:
        """Means over tokens; those of a role over its own tokens, 0 where the batch has none of it.

        The effective sample share is Kish's (sum w)^2 / (n * sum w^2) of the importance weights before truncation.
        `skipped` counts optimiser steps left out for a non-finite gradient; a figure the same fault spoiled is reported
        as 0.
        """
        designer_tokens = self.tokens - self.agent_tokens
        return StepMetrics(
            loss=_finite(self.loss / self.tokens),
            loss_agent=_finite(self.loss_agent / max(self.agent_tokens, 1)),
            loss_designer=_finite(self.loss_designer / max(designer_tokens, 1)),
            grad_norm=_finite(grad_norm),
            clip_fraction=self.clipped / self.tokens,
            truncated_fraction=self.truncated / self.tokens,
            effective_sample_share=_finite(math.exp(2 * self.log_w - self.log_w2) / self.tokens),
            mismatch=_finite(self.mismatch / self.tokens),
            entropy=_finite(self.entropy / self.tokens),
            agent_sequences=work.agent_sequences,
            designer_sequences=work.designer_sequences,
            designer_weight=work.designer_weight,
            trained_tokens=work.trained_tokens,
            skipped=skipped,
        )


def _log_add(left: float, right: float) -> float:
    """log(exp(left) + exp(right))."""
    high, low = max(left, right), min(left, right)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0
