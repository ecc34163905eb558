"""One process's part of a model under DeepSpeed's ZeRO: its micro-batches, its shards, its share of every gathering.

ZeRO: Rajbhandari et al. 2020 (arXiv:1910.02054); stage 0 is plain data parallelism. The
optimiser is torch's AdamW in every stage and place, so that nothing is compiled and numbers
are those of the torch backend.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from learner.backends import state
from learner.backends.deepspeed_settings import device_of, engine_of
from learner.backends.gradient import Passes
from learner.backends.meeting import gathered, halting
from learner.batch import MicroBatch, prepare
from learner.logprobs import trained_logprobs
from learner.models.prepare import prepare_model
from learner.optimizer import Guard, adamw, learning_rate, set_learning_rate
from learner.step_metrics import Totals
from spade.codec import pack_floats, pack_ids
from spade.config import Config
from spade.protocol import Batch, Group, StepMetrics, Trajectory


class Scorer(Module):
    """`trained_logprobs` as a module's forward, so that DeepSpeed gathers parameters around it."""

    def __init__(self, model: Any, low: bool) -> None:
        """`low`: autocast to bfloat16, for parameters in float32; else the dtype of the parameters."""
        super().__init__()
        self.model = model
        self._low = low

    def forward(self, micro: MicroBatch) -> tuple[Tensor, Tensor]:
        """See `trained_logprobs`."""
        with torch.autocast(micro.ids.device.type, dtype=torch.bfloat16, enabled=self._low):
            return trained_logprobs(self.model, micro)


class Shard:
    """Rank `rank` of learner.processes, which have met. Every method but `step` is called by all ranks at once."""

    def __init__(self, model: Any, reference: Any, config: Config, rank: int) -> None:
        """`model` on the CPU, of `deepspeed_settings.dtype`. Raises ConfigError."""
        learner = config.learner
        prepare_model(model, learner.activation_checkpointing)
        if reference is not None:
            prepare_model(reference, activation_checkpointing=False)
        self._config, self._rank, self._ranks = config, rank, learner.processes
        self._stage = learner.zero_stage
        self._device = device_of(config)
        self._adamw = adamw((parameter for _, parameter in state.trained(model)), learner)
        low = config.model.dtype == "bfloat16" and self._stage == 0
        self._engine = engine_of(Scorer(model, low), self._adamw, config)
        self._model = model
        self._reference = None if reference is None else partial(trained_logprobs, reference.to(self._device))
        self._guard = Guard()
        self.step = 0

    def train(self, batch: Batch, interrupt: Callable[[], None] = lambda: None) -> StepMetrics:
        """Take the step; see `base.Backend.train`. Only the first rank's `interrupt` counts, for all ranks."""
        learner, loss = self._config.learner, self._config.loss
        limit = even_limit(batch.groups, learner.microbatch_tokens, self._ranks)
        work = prepare(batch.groups, limit, learner.designer_weight_max)
        rate = learning_rate(batch.step, learner)
        set_learning_rate(self._adamw, rate)
        part, rounds = work.micro[self._rank :: self._ranks], -(-len(work.micro) // self._ranks)
        passes = Passes(
            work, part, rounds, loss, Totals(batch.version), self._device, self._engine, self._reference, self._backward
        )
        if self._ranks > 1:
            interrupt = halting(interrupt, self._rank, self._device)
        skipped, norm = 0, 0.0
        for index in range(learner.steps_per_batch):
            self._left = rounds
            passes.run((lambda: None) if index else interrupt)
            norm = self._optimise()
            skipped += not self._guard.passes(norm)
        self.step = batch.step
        totals = passes.totals
        if self._ranks > 1:
            totals = Totals(batch.version)
            for numbers in gathered(passes.totals.numbers(), self._ranks, self._device):
                totals.include(numbers)
        return totals.metrics(work, loss, norm, skipped, rate)

    def _backward(self, loss: Tensor) -> None:
        """Add a gradient, scaled since DeepSpeed averages over ranks instead of summing. All reduce after the last."""
        self._left -= 1
        self._engine.set_gradient_accumulation_boundary(self._left == 0)
        self._engine.backward(loss * self._ranks)

    def _optimise(self) -> float:
        """Take an optimiser step; returns the norm of the gradient. A gradient that is not finite changes nothing."""
        if self._stage:
            self._engine.step()
            return float(self._engine.get_global_grad_norm())
        norm = float(torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._config.learner.max_grad_norm))
        if torch.isfinite(torch.tensor(norm)):
            self._engine.step()
        self._engine.zero_grad()
        return norm

    @torch.no_grad()
    def gather(self, optimizer: bool) -> dict[str, Tensor]:
        """The trained parameters, with `optimizer` its state too, named as in `state`: whole on rank 0, on the CPU.

        Empty on the other ranks.
        """
        gathered: dict[str, Tensor] = {}
        self._link()
        steps = next((one["step"] for one in self._adamw.state.values()), None) if optimizer else None
        for name, parameter in state.trained(self._model):
            tensors = {"parameter": self._whole(parameter)}
            if steps is not None:
                tensors |= {key: self._whole(parameter, key) for key in state.MOMENTS} | {"step": steps}
            if self._rank == 0:
                gathered |= {f"{key}.{name}": value.to("cpu", copy=True) for key, value in tensors.items()}
        return gathered

    def save(self, folder: Path, tensors: dict[str, Tensor]) -> None:
        """On rank 0: write the result of `gather`."""
        state.write(folder, state.Counters(self.step, self._guard.count), tensors, self._device)

    @torch.no_grad()
    def load(self, folder: Path) -> None:
        """See `base.Backend.load`."""
        kept = state.State(folder)
        moments = {name: kept.optimizer(name) for name, _ in state.trained(self._model)}
        steps = [one["step"] for one in moments.values() if one]
        if steps and not self._adamw.state:
            self._make_room()
        self._link()
        for one in self._adamw.state.values():
            one["step"].copy_(steps[0])
        for name, parameter in state.trained(self._model):
            self._set(parameter, kept.parameter(name, _shape(parameter)))
            for key in state.MOMENTS if steps else ():
                self._set(parameter, moments[name][key], key)
        kept.restore_random(self._device)
        self.step, self._guard = kept.counters.step, Guard(kept.counters.non_finite)

    def _make_room(self) -> None:
        """Make AdamW create its state, by a step that changes nothing."""
        tokens = Trajectory(pack_ids([0, 0]), (1, 1), pack_floats([0.0]), ((0, 1),), 1.0)
        work = prepare([Group("nothing", "agent", (0.0,), (tokens,))], 2, 1.0)
        set_learning_rate(self._adamw, 0.0)
        self._left = 1
        with torch.enable_grad():
            self._backward(self._engine(work.micro[0].to(self._device))[0].sum() * 0.0)
        self._engine.step()

    def _link(self) -> None:
        """Link the parameters to their moments; DeepSpeed 0.19.8 does so for the first group alone."""
        from deepspeed.utils.mixed_precision_linkage import lazy_init_hp_params_optimizer_state as link

        if self._stage in (1, 2):
            shards = self._engine.optimizer
            for parameters, flat in zip(shards.bit16_groups, shards.single_partition_of_fp32_groups, strict=True):
                link(parameters, flat, self._adamw.state)

    def _whole(self, parameter: Parameter, moment: str | None = None) -> Tensor:
        """A parameter in float32, or its `moment`, from the shards of all ranks."""
        from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

        if self._stage == 0:
            value = self._adamw.state[parameter][moment] if moment else parameter
        elif moment:
            value = safe_get_full_optimizer_state(parameter, moment)
        else:
            value = safe_get_full_fp32_param(parameter)
        return cast(Tensor, value)

    def _set(self, parameter: Parameter, value: Tensor, moment: str | None = None) -> None:
        """Undo `_whole`: each rank keeps its shard of `value`."""
        from deepspeed.runtime.zero import GatheredParameters
        from deepspeed.utils import safe_set_full_fp32_param, safe_set_full_optimizer_state

        value = value.to(self._device)
        if moment and self._stage == 0:
            self._adamw.state[parameter][moment].copy_(value)
        elif moment:
            safe_set_full_optimizer_state(parameter, value, moment)
        else:  # the float32 shard that AdamW updates, and the one that the forward pass reads
            safe_set_full_fp32_param(parameter, value)
            with GatheredParameters([parameter], modifier_rank=0, enabled=self._stage == 3):
                parameter.copy_(value)


def even_limit(groups: Sequence[Group], most: int, ranks: int) -> int:
    """Token limit of a micro-batch that balances the ranks: at most `most`, unless a sequence is longer.

    Let `rounds` be the fewest micro-batches a rank needs. A limit of one rank's share of a round plus one sequence then
    gives at most `rounds` * `ranks` micro-batches.
    """
    lengths = [length for group in groups for member in group.trajectories for length in member.contexts]
    rounds = -(-sum(lengths) // (most * ranks))
    return min(most, -(-sum(lengths) // (rounds * ranks)) + max(lengths))


def _shape(parameter: Parameter) -> torch.Size:
    """The shape of the whole parameter, also if only a shard is here."""
    return cast(torch.Size, getattr(parameter, "ds_shape", parameter.shape))
