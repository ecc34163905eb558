"""Plain torch: one process, one device. Parameters and optimiser in float32, the arithmetic in the model's dtype."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from learner.batch import MicroBatch, Prepared, prepare
from learner.logprobs import trained_logprobs
from learner.loss import Tokens, averaged, denominator, token_losses
from learner.measure import Totals
from learner.model import prepare_model
from learner.optimizer import Guard, adamw, learning_rate, set_learning_rate
from spade.config import Config
from spade.errors import RunError
from spade.protocol import Batch, StepMetrics

STATE = "state.safetensors"


class TorchBackend:
    """AdamW over a Hugging Face causal language model in float32 (learning rates like 1e-6 vanish in bfloat16).

    The model stays in evaluation mode: dropout would make the ratio to the sampling policy noise.
    """

    def __init__(self, model: Any, config: Config, reference: Any = None) -> None:
        """`reference`: the model that `loss.kl` holds the policy to; None where that is 0."""
        prepare_model(model, config.learner.activation_checkpointing)
        if reference is not None:
            prepare_model(reference, activation_checkpointing=False)
        self._model = model.requires_grad_(True)
        self._config = config
        self._reference = reference
        self._optimizer = adamw(model.parameters(), config.learner)
        self._guard = Guard()
        self._step = 0

    @property
    def model(self) -> Any:
        """The Hugging Face model, parameters float32."""
        return self._model

    @property
    def step(self) -> int:
        """Learner steps taken."""
        return self._step

    def train(self, batch: Batch, interrupt: Callable[[], None] = lambda: None) -> StepMetrics:
        """See `base.Backend.train`; `steps_per_batch` optimiser steps, each over the whole batch."""
        if batch.step != self._step + 1:
            raise ValueError(f"batch of step {batch.step} after step {self._step}")
        learner = self._config.learner
        work = prepare(batch.groups, learner.microbatch_tokens, learner.designer_weight_max)
        rate = learning_rate(batch.step, learner)
        set_learning_rate(self._optimizer, rate)
        totals, old, skipped, norm = Totals(batch.version), list[Tensor](), 0, 0.0
        for index in range(learner.steps_per_batch):
            self._gradient(work, totals, old, interrupt if index == 0 else None)
            norm = float(torch.nn.utils.clip_grad_norm_(self._model.parameters(), learner.max_grad_norm))
            skipped += not self._apply(norm)
        self._step = batch.step
        return totals.metrics(work, self._config.loss, norm, skipped, rate)

    def _gradient(
        self, work: Prepared, totals: Totals, old: list[Tensor], interrupt: Callable[[], None] | None
    ) -> None:
        """Gradient of the mean loss over the batch's trained tokens. The first pass fills `old`, the policy before."""
        settings = self._config.loss
        count = denominator(work.trained_tokens, work.agent_sequences + work.designer_sequences, settings)
        self._optimizer.zero_grad(set_to_none=True)
        for index, micro in enumerate(work.micro):
            if interrupt is not None:
                interrupt()
            micro = micro.to(self._model.device)
            current, entropy = self._score(self._model, micro)
            if index == len(old):
                old.append(current.detach())
            tokens = Tokens(
                current, old[index], micro.behaviour, micro.advantage, micro.sequence, self._under_reference(micro)
            )
            losses, weight = token_losses(tokens, settings), averaged(micro.weight, micro.sequence, settings)
            ((losses.loss * weight).sum() / count).backward()  # type: ignore[no-untyped-call]
            totals.add(micro, losses, weight, old[index], entropy)

    def _score(self, model: Any, micro: MicroBatch) -> tuple[Tensor, Tensor]:
        low = self._config.model.dtype == "bfloat16"
        with torch.autocast(self._model.device.type, dtype=torch.bfloat16, enabled=low):
            return trained_logprobs(model, micro)

    @torch.no_grad()
    def _under_reference(self, micro: MicroBatch) -> Tensor | None:
        return None if self._reference is None else self._score(self._reference, micro)[0]

    def _apply(self, norm: float) -> bool:
        """One optimiser step, left out where the gradient is not finite. Raises RunError after too many in a row."""
        passes = self._guard.passes(norm)
        if passes:
            self._optimizer.step()
        return passes

    def save(self, folder: Path) -> None:
        """One safetensors file: parameters, Adam's moments, random state; the step in its header."""
        tensors = {"random": torch.get_rng_state()}
        if self._model.device.type == "cuda":
            tensors["random.device"] = torch.cuda.get_rng_state(self._model.device)
        for name, parameter in self._model.named_parameters():
            tensors[f"parameter.{name}"] = parameter.detach()
            for key, value in self._optimizer.state[parameter].items():
                tensors[f"{key}.{name}"] = value
        header = {"step": str(self._step), "non_finite": str(self._guard.count)}
        save_file({name: value.contiguous() for name, value in tensors.items()}, folder / STATE, header)

    @torch.no_grad()
    def load(self, folder: Path) -> None:
        """See `base.Backend.load`."""
        try:
            with safe_open(folder / STATE, framework="pt") as file:
                header, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise RunError(f"{folder}: the learner's state cannot be read ({error})") from None
        parameters = dict(self._model.named_parameters())
        for name, parameter in parameters.items():
            kept = tensors.get(f"parameter.{name}")
            if kept is None or kept.shape != parameter.shape:
                raise RunError(
                    f"{folder}: holds another model (its {name} differs); resume with the run's own model.path"
                )
            parameter.copy_(kept)
            moments = {key: tensors.get(f"{key}.{name}") for key in ("step", "exp_avg", "exp_avg_sq")}
            self._optimizer.state[parameter] = {
                key: value.to(parameter.device) for key, value in moments.items() if value is not None
            }
        torch.set_rng_state(tensors["random"])
        if self._model.device.type == "cuda" and "random.device" in tensors:
            torch.cuda.set_rng_state(tensors["random.device"], self._model.device)
        self._step, self._guard = int(header["step"]), Guard(int(header["non_finite"]))
