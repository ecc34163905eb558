"""Train one process's part of a model under DeepSpeed's ZeRO, and take part in gathering the whole.

ZeRO: Rajbhandari et al. 2020 (arXiv:1910.02054). Stage 0 is plain data parallelism. The optimiser is torch's AdamW in
every stage, also with offloading. So nothing is compiled, and the numbers equal the torch backend's numbers.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import torch
from torch import Tensor
from torch.nn import Module

from learner.backends import state
from learner.backends.deepspeed_settings import find_device, make_engine
from learner.backends.fragments import list_trained
from learner.backends.gradient import Passes
from learner.backends.meeting import do_together, exchange_bytes, gather_numbers, share_interrupt
from learner.backends.partition import Partition
from learner.batch import MicroBatch, prepare
from learner.checkpoint import Save, compute_file_digest
from learner.logprobs import compute_trained_logprobs
from learner.models.prepare import prepare_model, shares_beginnings
from learner.optimizer import Guard, compute_learning_rate, make_adamw, set_learning_rate
from learner.step_metrics import Totals
from spade.codec import pack_floats, pack_ids
from spade.config import Config
from spade.disk import sync
from spade.errors import RunError
from spade.protocol import Batch, Group, StepMetrics, Trajectory

T = TypeVar("T")


class Scorer(Module):
    """A module with `compute_trained_logprobs` as its forward, so that DeepSpeed gathers its sharded parameters."""

    def __init__(self, model: Any, low: bool) -> None:
        """Wrap `model`. With `low`, autocast computes in bfloat16. Otherwise the parameters' own dtype is used."""
        super().__init__()
        self.model = model
        self._low = low

    def forward(self, micro: MicroBatch) -> tuple[Tensor, Tensor]:
        """See `compute_trained_logprobs`."""
        with torch.autocast(micro.ids.device.type, dtype=torch.bfloat16, enabled=self._low):
            return compute_trained_logprobs(self.model, micro)


class Shard:
    """One rank's part of a model, after all ranks have joined the process group.

    All ranks must call a method together, except `freeze`.
    """

    def __init__(self, model: Any, reference: Any, config: Config, rank: int) -> None:
        """Prepare `model`, which is on the CPU, in the dtype that `choose_dtype` returned. Raises ConfigError."""
        learner = config.learner
        prepare_model(model, learner.activation_checkpointing)
        if reference is not None:
            prepare_model(reference, activation_checkpointing=False)
        self._share = shares_beginnings(model, reference)
        self._config, self._rank, self._ranks = config, rank, learner.processes
        self._stage = learner.zero_stage
        self._device = find_device(config)
        self._adamw = make_adamw((parameter for _, parameter in list_trained(model)), learner)
        low = config.model.dtype == "bfloat16" and self._stage == 0
        self._engine = make_engine(Scorer(model, low), self._adamw, config)
        self._model = model
        self._partition = Partition(model, self._adamw, self._engine, self._stage, rank)
        self._reference = None if reference is None else partial(compute_trained_logprobs, reference.to(self._device))
        self._guard = Guard()
        self.step = 0

    def train(self, batch: Batch, interrupt: Callable[[], None] = lambda: None) -> StepMetrics:
        """Take a step (see `base.Backend.train`). The first rank's `interrupt` counts for all ranks."""
        learner, loss = self._config.learner, self._config.loss
        work = prepare(batch.groups, learner.microbatch_tokens, learner.designer_weight_max, self._ranks, self._share)
        rate = compute_learning_rate(batch.step, learner)
        set_learning_rate(self._adamw, rate)
        part, rounds = work.micro[self._rank :: self._ranks], -(-len(work.micro) // self._ranks)
        passes = Passes(
            work, part, rounds, loss, Totals(batch.version), self._device, self._engine, self._reference, self._backward
        )
        if self._ranks > 1:
            interrupt = share_interrupt(interrupt, self._rank, self._device)
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
            for numbers in gather_numbers(passes.totals.numbers(), self._ranks, self._device):
                totals.include(numbers)
        return totals.metrics(work, loss, norm, skipped, rate)

    def _backward(self, loss: Tensor) -> None:
        """Add the gradient of a loss, times the number of ranks, because DeepSpeed averages over the ranks.

        The ranks reduce their gradients after the last micro-batch.
        """
        self._left -= 1
        self._engine.set_gradient_accumulation_boundary(self._left == 0)
        self._engine.backward(loss * self._ranks)

    def _optimise(self) -> float:
        """Take an optimiser step. Returns the norm of the gradient. A non-finite gradient changes nothing."""
        if self._stage:
            self._engine.step()
            return float(self._engine.get_global_grad_norm())
        norm = float(torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._config.learner.max_grad_norm))
        if torch.isfinite(torch.tensor(norm)):
            self._engine.step()
        self._engine.zero_grad()
        return norm

    @torch.no_grad()
    def gathered(self, optimizer: bool) -> Iterator[tuple[str, Tensor]]:
        """Yield (name as in `state`, whole tensor) of each trained parameter and, with `optimizer`, of its moments."""
        yield from self._partition.gathered(optimizer)

    def give(self, optimizer: bool) -> None:
        """Take part in rank 0's `gathered`. All other ranks call this."""
        deque(self.gathered(optimizer), maxlen=0)

    def freeze(self, tensors: Iterator[tuple[str, Tensor]]) -> Save:
        """Copy the gathered parameters and moments. Only rank 0 calls this."""
        return state.freeze(self._counters, chain(tensors, self._read_steps().items()), self._device)

    @torch.no_grad()
    def save_part(self, folder: Path) -> dict[str, str]:
        """Write this rank's part of the state. Returns the digests of all ranks' files, by their paths in `folder`.

        If one rank cannot write, all ranks raise SpadeError.
        """
        from learner.backends import shards  # import here: most learners do not need torch.distributed.checkpoint

        self._do_together(partial(_require_shared, folder))
        files = shards.write(folder / state.SHARDS, self._partition.fragments())
        mine = self._do_together(lambda: {str(file.relative_to(folder)): _sync_and_digest(file) for file in files})
        digests: dict[str, str] = {}
        for part in exchange_bytes(msgspec.json.encode(mine), self._ranks, self._device):
            digests |= msgspec.json.decode(part, type=dict[str, str])
        if self._rank == 0:
            steps, shapes = self._read_steps().items(), self._partition.shapes
            state.freeze(self._counters, steps, self._device, sharded=shapes)(folder)
        return digests

    @torch.no_grad()
    def load(self, folder: Path) -> None:
        """See `base.Backend.load`. If one rank cannot read, all ranks raise SpadeError."""
        partition = self._partition
        kept = self._do_together(partial(self._open_state, folder))
        steps = next((one for name in partition.shapes if (one := kept.steps(name)) is not None), None)
        if steps is not None:
            if partition.steps is None:
                self._make_room()
            partition.set_steps(steps)
        self._do_together(partial(kept.fill, partition.fragments()))
        partition.refresh()
        kept.restore_random(self._device)
        self.step, self._guard = kept.counters.step, Guard(kept.counters.non_finite)

    def _do_together(self, work: Callable[[], T]) -> T:
        return do_together(work, self._ranks, self._device)

    def _open_state(self, folder: Path) -> state.State:
        kept = state.State(folder)
        kept.check(self._partition.shapes)
        return kept

    @property
    def _counters(self) -> state.Counters:
        return state.Counters(self.step, self._guard.count)

    def _read_steps(self) -> dict[str, Tensor]:
        """Return AdamW's count of steps for each parameter, by `step.NAME`. Empty before the first step."""
        steps = self._partition.steps
        return {} if steps is None else dict.fromkeys((f"step.{name}" for name in self._partition.shapes), steps)

    def _make_room(self) -> None:
        """Make AdamW create its state with a step that changes nothing."""
        tokens = Trajectory(pack_ids([0, 0]), (1, 1), pack_floats([0.0]), ((0, 1),), 1.0)
        work = prepare([Group("nothing", "agent", (0.0,), (tokens,))], 2, 1.0)
        set_learning_rate(self._adamw, 0.0)
        self._left = 1
        with torch.enable_grad():
            self._backward(self._engine(work.micro[0].to(self._device))[0].sum() * 0.0)
        self._engine.step()


def _require_shared(folder: Path) -> None:
    """Raise RunError if this rank does not see the folder that the first rank made."""
    if not folder.is_dir():
        raise RunError(
            f"{folder}: is not seen by this rank, which must write its part of the checkpoint there; "
            "put the run directory on a file system that all ranks share, or set learner.checkpoint=whole"
        )


def _sync_and_digest(file: Path) -> str:
    """Sync a file that this rank wrote, and return its digest."""
    sync(file)
    return compute_file_digest(file)
