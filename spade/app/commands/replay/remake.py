"""Repeat a learner step from the store.

Start from the newest checkpoint before the step and train every recorded batch from there, in order. On the CPU, with
the same number of threads (one, for nano), the loss equals the recorded loss bit for bit.
"""

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import msgspec
import torch
import trio
from safetensors.torch import save
from torch import Tensor

from learner import checkpoint
from learner.backends.opening import open_outside_run
from learner.batch import PreparedStep, prepare
from replay.ledger.records import BatchRecord, Publication
from replay.store import Store, open_reader
from replay.store.past_batches import read_batch, read_recorded, read_taken
from spade.app.rundir import RunDir
from spade.config import Config
from spade.disk import replace
from spade.errors import RunError
from spade.progress import follow
from spade.protocol import Batch, StepMetrics

MEASURED_TIMES = ("step_s", "wait_s")


class RepeatedStep(msgspec.Struct, frozen=True):
    """A repeated learner step."""

    step: int
    """Number of the step."""
    version: int
    """Policy version that the batch was trained at."""
    checkpoint: int
    """Step of the checkpoint that the repetition started from, 0 for the initial policy."""
    groups: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Id, role and trajectories of each group, in training order."""
    micro_batches: int
    """Number of micro-batches."""
    trained_tokens: int
    """Number of trained tokens."""
    tensors: str
    """blake2b-128 of all tensors of the micro-batches, in hex."""
    loss: float
    """The repeated loss."""
    recorded: float | None
    """The loss that the learner reported, or None if the step was not published."""
    differs: tuple[str, ...]
    """Names of the metrics that differ from the recorded metrics."""


def remake(path: Path, step: int, out: Path | None) -> RepeatedStep:
    """Repeat step `step` of a run. If `out` is given, write the step's tensors to this safetensors file.

    Raises RunError if the step was never taken, or if the necessary checkpoint is gone.
    """
    run = RunDir(path).require()
    config = run.config()
    with open_reader(run.store) as store, store.pinned():  # otherwise retention may delete the batches meanwhile
        record = read_taken(store, step)
        start = _start(run.checkpoints, step, config)
        begun = 0 if start is None else start[1].step
        earlier = [read_batch(store, _record(store, number)) for number in range(begun + 1, step)]
        again = read_batch(store, record)
        published = [one for one in store.scan("publications", Publication) if one.weights.step == step]
    work = prepare(again.groups, config.learner.microbatch_tokens, config.learner.designer_weight_max)
    if out is not None:
        replace(out, save(_collect_tensors(work)))
    with tempfile.TemporaryDirectory(prefix="spade-") as folder:
        metrics = trio.run(_train, config, start, [*earlier, again], Path(folder))
    reported = published[-1].metrics if published else None
    return RepeatedStep(
        step=step,
        version=record.version,
        checkpoint=begun,
        groups=tuple((g.id, g.role, tuple(member.trajectory for member in g.members)) for g in record.groups),
        micro_batches=len(work.micro),
        trained_tokens=work.trained_tokens,
        tensors=_compute_digest(_collect_tensors(work)),
        loss=metrics.loss,
        recorded=None if reported is None else reported.loss,
        differs=() if reported is None else _list_differing(metrics, reported),
    )


async def _train(
    config: Config, start: tuple[Path, checkpoint.Manifest] | None, batches: Sequence[Batch], folder: Path
) -> StepMetrics:
    """Train all batches. Returns the metrics of the last one."""
    metrics = StepMetrics()
    async with open_outside_run(config, start, folder) as (backend, _):
        for one in follow(batches, "training"):
            metrics = await trio.to_thread.run_sync(backend.train, one)
    return metrics


def _start(checkpoints: Path, step: int, config: Config) -> tuple[Path, checkpoint.Manifest] | None:
    """Return the newest checkpoint before `step`, or None to start from the initial policy.

    Raises RunError if the start is more than `learner.checkpoint_every` steps before `step`.
    """
    found = checkpoint.find_newest(checkpoints, until=step - 1)
    before = 0 if found is None else found[1].step
    every = config.learner.checkpoint_every
    if step - before > every:
        kept = ", ".join(str(number) for number, _ in checkpoint.list_kept(checkpoints)) or "none"
        raise RunError(
            f"{checkpoints}: step {step} needs a checkpoint of step {step - every} to {step - 1}, which has been "
            f"deleted (kept: {kept}); learner.keep_checkpoints = {config.learner.keep_checkpoints} says how many stay"
        )
    return found


def _record(store: Store, step: int) -> BatchRecord:
    record = read_recorded(store, step)
    if record is None:
        raise RunError(f"{store.path}: the batch of step {step} is missing; `spade replay verify` lists all faults")
    return record


def _collect_tensors(work: PreparedStep) -> dict[str, Tensor]:
    """Return all tensors of all micro-batches, by number and field."""
    return {
        f"{index:04d}.{field.name}": torch.as_tensor(getattr(micro, field.name))
        for index, micro in enumerate(work.micro)
        for field in fields(micro)
    }


def _compute_digest(tensors: dict[str, Tensor]) -> str:
    hashed = hashlib.blake2b(digest_size=16)
    for name, tensor in tensors.items():
        hashed.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        hashed.update(tensor.contiguous().numpy().tobytes())
    return hashed.hexdigest()


def _list_differing(metrics: StepMetrics, reported: StepMetrics) -> tuple[str, ...]:
    names = [name for name in metrics.__struct_fields__ if name not in MEASURED_TIMES]
    return tuple(name for name in names if getattr(metrics, name) != getattr(reported, name))
