"""Build AdamW over two parameter groups, compute the learning rate of a step, and guard against bad gradients."""

import math
from collections.abc import Iterable

import torch
from torch.nn import Parameter

from spade.config import Learner
from spade.errors import RunError

NON_FINITE_MAX = 10
BETAS = 0.9, 0.98  # the paper's
EPS = 1e-8  # torch's default; a greater value did not help nano (docs/nano.md, "What was tried")


def make_adamw(parameters: Iterable[Parameter], learner: Learner) -> torch.optim.AdamW:
    """Build AdamW (arXiv:1711.05101). The fused kernel is far faster on many small tensors."""
    return torch.optim.AdamW(
        split_parameters(parameters, learner.weight_decay),
        lr=learner.lr,
        betas=BETAS,
        eps=EPS,
        fused=True,
    )


def split_parameters(parameters: Iterable[Parameter], weight_decay: float) -> list[dict[str, object]]:
    """Split the parameters into two groups: matrices with weight decay, vectors (norms, biases) without."""
    kept = list(parameters)
    return [
        {"params": [one for one in kept if one.dim() > 1], "weight_decay": weight_decay},
        {"params": [one for one in kept if one.dim() <= 1], "weight_decay": 0.0},
    ]


def compute_learning_rate(step: int, learner: Learner) -> float:
    """Return the learning rate of learner step `step` (from 1). It needs no state, so a resume computes it again.

    The rate rises linearly over `warmup_steps` and reaches `lr` at the step after them. Then it stays constant,
    or falls on half a cosine to `lr_min` at step `schedule_steps` and stays there (SGDR, arXiv:1608.03983).
    """
    if step <= learner.warmup_steps:
        return learner.lr * step / (learner.warmup_steps + 1)
    if learner.schedule == "constant":
        return learner.lr
    first = learner.warmup_steps + 1
    done = min((step - first) / (learner.schedule_steps - first), 1.0)
    return learner.lr_min + (learner.lr - learner.lr_min) * 0.5 * (1 + math.cos(math.pi * done))


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of all parameter groups."""
    for group in optimizer.param_groups:
        group["lr"] = rate


class Guard:
    """Decides which gradients may be applied. `count`, the refused gradients in a row, is part of a checkpoint."""

    def __init__(self, count: int = 0) -> None:
        self.count = count

    def passes(self, norm: float) -> bool:
        """Return True if a gradient with this norm may be applied.

        Raises RunError at more than `NON_FINITE_MAX` non-finite norms in a row.
        """
        if math.isfinite(norm):
            self.count = 0
            return True
        self.count += 1
        if self.count > NON_FINITE_MAX:
            raise RunError(
                f"learner: {self.count} gradients in a row were not finite; "
                "lower learner.lr or learner.max_grad_norm and start the run again from its last checkpoint"
            )
        return False
