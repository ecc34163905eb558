"""The gradient of the mean loss over a batch, micro-batch by micro-batch: common to all backends."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from learner.batch import MicroBatch, Prepared
from learner.loss import Tokens, averaged, denominator, token_losses
from learner.step_metrics import Totals
from spade.config import Loss

Score = Callable[[MicroBatch], tuple[Tensor, Tensor]]


@dataclass
class Passes:
    """One process's passes over one batch, one for each optimiser step.

    part       its micro-batches of `work`; the denominator is that of the whole batch
    rounds     number of micro-batches that each process computes: beyond its part it repeats the smallest one,
               since all processes must take part in gathering sharded parameters
    score      function: (log-probability with gradient, entropy) of each trained token, float32, (n,)
    reference  the same of the KL reference model, or None
    backward   adds the gradient of a scalar loss to the gathered one
    """

    work: Prepared
    part: Sequence[MicroBatch]
    rounds: int
    settings: Loss
    totals: Totals
    device: torch.device
    score: Score
    reference: Score | None
    backward: Callable[[Tensor], None]
    _old: list[Tensor] = field(default_factory=list)

    def run(self, interrupt: Callable[[], None]) -> None:
        """One pass. The first one fills `_old`, the policy before. `interrupt` is called before each micro-batch."""
        work = self.work
        count = denominator(work.trained_tokens, work.agent_sequences + work.designer_sequences, self.settings)
        for index in range(self.rounds):
            interrupt()
            if index < len(self.part):
                self._one(index, self.part[index].to(self.device), count)
            else:
                self._nothing(min(work.micro, key=lambda micro: len(micro.ids)).to(self.device))

    def _one(self, index: int, micro: MicroBatch, count: float) -> None:
        current, entropy = self.score(micro)
        if index == len(self._old):
            self._old.append(current.detach())
        tokens = Tokens(
            current, self._old[index], micro.behaviour, micro.advantage, micro.sequence, micro.weight,
            self._under_reference(micro),
        )  # fmt: skip
        losses = token_losses(tokens, self.settings)
        loss = averaged(losses.loss, micro.whole, self.settings)
        self.backward(loss.sum() / count)
        self.totals.add(micro, losses, loss, self._old[index], entropy)

    def _nothing(self, micro: MicroBatch) -> None:
        self._under_reference(micro)
        self.backward(self.score(micro)[0].sum() * 0.0)

    @torch.no_grad()
    def _under_reference(self, micro: MicroBatch) -> Tensor | None:
        return None if self.reference is None else self.reference(micro)[0]
