"""Compute the gradient of the mean loss over a batch, micro-batch by micro-batch. All backends use this module."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from learner.batch import MicroBatch, PreparedStep
from learner.loss import Tokens, average_loss, compute_denominator, compute_token_losses
from learner.step_metrics import Totals
from spade.config import Loss
from spade.processes.memory import trim

Score = Callable[[MicroBatch], tuple[Tensor, Tensor]]


@dataclass
class Passes:
    """The passes of one process over one batch, one pass for each optimiser step."""

    work: PreparedStep
    """The whole batch. The loss is divided by the denominator of the whole batch."""
    part: Sequence[MicroBatch]
    """Micro-batches of `work` that this process computes."""
    rounds: int
    """Number of micro-batches that each process computes. A process with a smaller part then repeats the smallest
    micro-batch without effect, because gathering sharded parameters needs all processes."""
    settings: Loss
    """Settings of the loss."""
    totals: Totals
    """Sums for the metrics, filled by the passes."""
    device: torch.device
    """Device of the model."""
    score: Score
    """Function that returns (log-probability with gradient, entropy) of each trained token, float32, (n,)."""
    reference: Score | None
    """The same function for the KL reference model, or None."""
    backward: Callable[[Tensor], None]
    """Function that adds the gradient of a scalar loss to the accumulated gradient."""
    _old: list[Tensor] = field(default_factory=list)
    """For each micro-batch of the part, the log-probabilities under pi_old: float32, (n,)."""

    def run(self, interrupt: Callable[[], None]) -> None:
        """Make one pass, which adds up the gradient. The first pass fills `_old`.

        `interrupt` is called before each micro-batch.
        """
        work = self.work
        count = compute_denominator(work.trained_tokens, work.agent_sequences + work.designer_sequences, self.settings)
        for index in range(self.rounds):
            interrupt()
            if index < len(self.part):
                self._one(index, self.part[index].to(self.device), count)
            else:
                self._nothing(min(work.micro, key=lambda micro: len(micro.ids)).to(self.device))
            if self.device.type == "cpu":
                trim()  # otherwise new gradients lie between freed activations, whose pages then stay in use

    def _one(self, index: int, micro: MicroBatch, count: float) -> None:
        current, entropy = self.score(micro)
        if index == len(self._old):
            self._old.append(current.detach())
        tokens = Tokens(
            current, self._old[index], micro.behaviour, micro.advantage, micro.sequence, micro.weight,
            self._score_under_reference(micro),
        )  # fmt: skip
        losses = compute_token_losses(tokens, self.settings)
        loss = average_loss(losses.loss, micro.whole, self.settings)
        self.backward(loss.sum() / count)
        self.totals.add(micro, losses, loss, self._old[index], entropy)

    def _nothing(self, micro: MicroBatch) -> None:
        self._score_under_reference(micro)
        self.backward(self.score(micro)[0].sum() * 0.0)

    @torch.no_grad()
    def _score_under_reference(self, micro: MicroBatch) -> Tensor | None:
        return None if self.reference is None else self.reference(micro)[0]
