"""Train in plain torch on one device. Parameters and optimiser state are float32. The arithmetic uses model.dtype."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from learner.backends import state
from learner.backends.fragments import MOMENTS, PARAMETER, Fragments, list_trained, make_whole_fragment
from learner.backends.gradient import Passes
from learner.batch import MicroBatch, prepare
from learner.checkpoint import Save
from learner.logprobs import compute_trained_logprobs
from learner.models.loaded import Whole
from learner.models.narrow import cast_weights_late
from learner.models.prepare import prepare_model, shares_beginnings
from learner.models.working import WorkingCopy, needs_copy
from learner.optimizer import Guard, compute_learning_rate, make_adamw, set_learning_rate
from learner.step_metrics import Totals
from spade.config import Config
from spade.protocol import Batch, StepMetrics


class TorchBackend:
    """A backend that trains a Hugging Face causal language model by AdamW, in float32 so that small updates count.

    The model stays in evaluation mode, because dropout would add noise to the ratio of the trained policy to the
    sampling policy.
    """

    def __init__(self, model: Any, config: Config, reference: Any = None) -> None:
        """Train the parameters of `model` that require gradients. `reference` is the KL reference model, or None."""
        prepare_model(model, config.learner.activation_checkpointing)
        if reference is not None:
            prepare_model(reference, activation_checkpointing=False)
        self._model = model
        self._copy = WorkingCopy(model) if needs_copy(model, config.model.dtype) else None
        self._autocast = config.model.dtype == "bfloat16" and self._copy is None
        if self._autocast:
            cast_weights_late(model)
        self._config = config
        self._reference = reference
        self._optimizer = make_adamw((parameter for _, parameter in list_trained(model)), config.learner)
        self._whole: Whole | None = None
        self._guard = Guard()
        self._step = 0

    @property
    def model(self) -> Any:
        """Return the Hugging Face model with float32 parameters, merged with its adapter if it uses one."""
        if not self._config.learner.lora_rank:
            return self._model
        self._whole = self._whole or Whole(self._config)
        return self._whole.filled(list_trained(self._model))

    @property
    def step(self) -> int:
        """Return the number of learner steps taken."""
        return self._step

    def train(self, batch: Batch, interrupt: Callable[[], None] = lambda: None) -> StepMetrics:
        """See `base.Backend.train`. Takes `steps_per_batch` optimiser steps, each over the whole batch."""
        if batch.step != self._step + 1:
            raise ValueError(f"batch of step {batch.step} after step {self._step}")
        learner, device = self._config.learner, self._model.device
        share = shares_beginnings(self._model, self._reference)
        work = prepare(batch.groups, learner.microbatch_tokens, learner.designer_weight_max, share=share)
        rate = compute_learning_rate(batch.step, learner)
        set_learning_rate(self._optimizer, rate)
        reference = None if self._reference is None else partial(self._score, self._reference)
        passes = Passes(
            work, work.micro, len(work.micro), self._config.loss, Totals(batch.version), device,
            partial(self._score, self._copy.model if self._copy else self._model), reference, Tensor.backward,
        )  # fmt: skip
        skipped, norm = 0, 0.0
        for index in range(learner.steps_per_batch):
            self._optimizer.zero_grad(set_to_none=True)
            passes.run((lambda: None) if index else interrupt)
            norm = float(torch.nn.utils.clip_grad_norm_(self._model.parameters(), learner.max_grad_norm))
            skipped += not self._apply(norm)
        self._step = batch.step
        return passes.totals.metrics(work, self._config.loss, norm, skipped, rate)

    def _score(self, model: Any, micro: MicroBatch) -> tuple[Tensor, Tensor]:
        with torch.autocast(self._model.device.type, dtype=torch.bfloat16, enabled=self._autocast):
            return compute_trained_logprobs(model, micro)

    def _apply(self, norm: float) -> bool:
        """Take an optimiser step and return True. Returns False if the gradient is not finite.

        Raises RunError as `Guard.passes` does.
        """
        passes = self._guard.passes(norm)
        if passes:
            self._optimizer.step()
            if self._copy:
                self._copy.refresh()
        return passes

    @property
    def copies_state(self) -> bool:
        """See `base.Backend.copies_state`. True on a GPU, from which the state must be copied in any case."""
        return bool(self._model.device.type != "cpu")

    def save(self, folder: Path) -> dict[str, str]:
        """See `base.Backend.save`."""
        return self._freeze(copy=False)(folder)

    def freeze(self) -> Save:
        """See `base.Backend.freeze`."""
        return self._freeze(copy=True)

    def _freeze(self, *, copy: bool) -> Save:
        tensors = {name: fragment.data.view(fragment.shape) for name, fragment in self._list_fragments().items()}
        for name, parameter in list_trained(self._model):
            if kept := self._optimizer.state[parameter]:
                tensors[f"step.{name}"] = kept["step"]
        counters = state.Counters(self._step, self._guard.count)
        return state.freeze(counters, tensors.items(), self._model.device, copy=copy)

    @torch.no_grad()
    def load(self, folder: Path) -> None:
        """See `base.Backend.load`."""
        kept, device = state.State(folder), self._model.device
        kept.check({name: tuple(parameter.shape) for name, parameter in list_trained(self._model)})
        for name, parameter in list_trained(self._model):
            steps = kept.steps(name)
            self._optimizer.state[parameter] = {}
            if steps is not None:
                moments = {kind: torch.empty_like(parameter) for kind in MOMENTS}
                self._optimizer.state[parameter] = {"step": steps.to(device), **moments}
        kept.fill(self._list_fragments())
        if self._copy:
            self._copy.refresh()
        kept.restore_random(device)
        self._step, self._guard = kept.counters.step, Guard(kept.counters.non_finite)

    def _list_fragments(self) -> Fragments:
        """Return the trained parameters and, after the first step, their moments."""
        fragments: Fragments = {}
        for name, parameter in list_trained(self._model):
            moments = {kind: value for kind, value in self._optimizer.state[parameter].items() if kind in MOMENTS}
            fragments |= {
                f"{kind}.{name}": make_whole_fragment(value)
                for kind, value in {PARAMETER: parameter, **moments}.items()
            }
        return fragments

    def close(self) -> None:
        """Do nothing, since this backend is a single process."""
