"""A learner step repeated from the store, bit for bit.

It starts from the newest checkpoint before the step and trains every recorded batch from there, in order. On the CPU,
with the same number of threads (one, for nano), the loss equals the recorded one bit for bit.
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
from learner.backends.opening import apart
from learner.batch import Prepared, prepare
from replay.ledger.records import BatchRecord, Publication
from replay.store import Store, open_reader
from replay.store.past_batches import batch, recorded, taken
from spade.app.rundir import RunDir
from spade.config import Config
from spade.errors import RunError
from spade.protocol import Batch, StepMetrics

MEASURED_TIMES = ("step_s", "wait_s")


class Remade(msgspec.Struct, frozen=True):
    """A repeated step.

    checkpoint  step of the checkpoint it started from, 0 for the initial policy
    groups      id, role and trajectories of each group, in the order they were trained
    tensors     blake2b-128 of all tensors of its micro-batches, in hex
    recorded    the loss the learner reported; None if the step was not published
    differs     metrics that differ from the recorded ones
    """

    step: int
    version: int
    checkpoint: int
    groups: tuple[tuple[str, str, tuple[str, ...]], ...]
    micro_batches: int
    trained_tokens: int
    tensors: str
    loss: float
    recorded: float | None
    differs: tuple[str, ...]


def remake(path: Path, step: int, out: Path | None) -> Remade:
    """Repeat step `step` of a run; write its tensors to the safetensors file `out`, if given.

    Raises RunError if the step was never taken, or the checkpoint it needs is gone.
    """
    run = RunDir(path).require()
    config = run.config()
    with open_reader(run.store) as store, store.pinned():  # else retention may delete the batches meanwhile
        record = taken(store, step)
        start = _start(run.checkpoints, step, config)
        begun = 0 if start is None else start[1].step
        earlier = [batch(store, _record(store, number)) for number in range(begun + 1, step)]
        again = batch(store, record)
        published = [one for one in store.scan("publications", Publication) if one.weights.step == step]
    work = prepare(again.groups, config.learner.microbatch_tokens, config.learner.designer_weight_max)
    if out is not None:
        out.write_bytes(save(_tensors(work)))
    with tempfile.TemporaryDirectory(prefix="spade-") as folder:
        metrics = trio.run(_train, config, start, [*earlier, again], Path(folder))
    reported = published[-1].metrics if published else None
    return Remade(
        step=step,
        version=record.version,
        checkpoint=begun,
        groups=tuple((g.id, g.role, tuple(member.trajectory for member in g.members)) for g in record.groups),
        micro_batches=len(work.micro),
        trained_tokens=work.trained_tokens,
        tensors=_digest(_tensors(work)),
        loss=metrics.loss,
        recorded=None if reported is None else reported.loss,
        differs=() if reported is None else _differing(metrics, reported),
    )


async def _train(
    config: Config, start: tuple[Path, checkpoint.Manifest] | None, batches: Sequence[Batch], folder: Path
) -> StepMetrics:
    """Train all batches; returns the metrics of the last."""
    metrics = StepMetrics()
    async with apart(config, start, folder) as (backend, _):
        for one in batches:
            metrics = await trio.to_thread.run_sync(backend.train, one)
    return metrics


def _start(checkpoints: Path, step: int, config: Config) -> tuple[Path, checkpoint.Manifest] | None:
    """The newest checkpoint before `step`; None for the initial policy, which serves the first steps as well."""
    found = checkpoint.newest(checkpoints, until=step - 1)
    before = 0 if found is None else found[1].step
    every = config.learner.checkpoint_every
    if step - before > every:
        kept = ", ".join(str(number) for number, _ in checkpoint.kept(checkpoints)) or "none"
        raise RunError(
            f"{checkpoints}: step {step} needs a checkpoint of step {step - every} to {step - 1}, which has been "
            f"retired (kept: {kept}); learner.keep_checkpoints = {config.learner.keep_checkpoints} says how many stay"
        )
    return found


def _record(store: Store, step: int) -> BatchRecord:
    record = recorded(store, step)
    if record is None:
        raise RunError(f"{store.path}: the batch of step {step} is missing; `spade replay verify` says what else is")
    return record


def _tensors(work: Prepared) -> dict[str, Tensor]:
    """All tensors of all micro-batches, by number and field."""
    return {
        f"{index:04d}.{field.name}": torch.as_tensor(getattr(micro, field.name))
        for index, micro in enumerate(work.micro)
        for field in fields(micro)
    }


def _digest(tensors: dict[str, Tensor]) -> str:
    hashed = hashlib.blake2b(digest_size=16)
    for name, tensor in tensors.items():
        hashed.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        hashed.update(tensor.contiguous().numpy().tobytes())
    return hashed.hexdigest()


def _differing(metrics: StepMetrics, reported: StepMetrics) -> tuple[str, ...]:
    names = [name for name in metrics.__struct_fields__ if name not in MEASURED_TIMES]
    return tuple(name for name in names if getattr(metrics, name) != getattr(reported, name))
