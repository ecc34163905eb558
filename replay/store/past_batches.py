"""Past batches, rebuilt from the store."""

from collections.abc import Callable
from typing import Any

import msgspec

from replay.ledger.keys import make_batch_key
from replay.ledger.records import BatchRecord, RunCounters
from replay.store.store import Store
from spade.errors import RunError
from spade.protocol import Batch, Group, Trajectory


def read_recorded(store: Store, step: int) -> BatchRecord | None:
    """Return the record of learner step `step`, or None if its batch was never taken."""
    return store.get("batches", make_batch_key(step), BatchRecord)


def read_taken(store: Store, step: int) -> BatchRecord:
    """Return the record of learner step `step`. Raises RunError if its batch was never taken."""
    record = read_recorded(store, step)
    if record is None:
        last = len(store.scan("batches", BatchRecord))
        steps = f"its steps are 1 to {last}" if last else "it has no step yet"
        raise RunError(f"{store.path}: step {step} was never taken; {steps}")
    return record


def read_batch(store: Store, record: BatchRecord) -> Batch:
    """Rebuild the batch as the learner got it, with its trajectories. Raises RunError if retention deleted them."""
    counters = store.get("meta", "counters", RunCounters)
    if counters is not None and record.step <= counters.dropped_step:
        raise RunError(explain_dropped(record.step))
    return _build(store, record, msgspec.msgpack.Decoder(Trajectory).decode)


def read_packed_batch(store: Store, record: BatchRecord, last: bool = False) -> Batch:
    """Return the batch as sent. Its trajectories are msgspec.Raw, the stored bytes, which the receiver decodes.

    `last`: see `Batch`.
    """
    return _build(store, record, msgspec.Raw, last)


def _build(store: Store, record: BatchRecord, read: Callable[[bytes], Any], last: bool = False) -> Batch:
    """Return the batch with the result of `read` for each stored trajectory."""
    bodies = iter(store.bodies([member.trajectory for group in record.groups for member in group.members]))
    groups = (
        Group(
            id=group.id,
            role=group.role,
            rewards=tuple(member.reward for member in group.members),
            trajectories=tuple(read(next(bodies)) for _ in group.members),
            baseline=group.baseline,
        )
        for group in record.groups
    )
    return Batch(record.step, record.version, tuple(groups), last)


def explain_dropped(step: int) -> str:
    """Explain why a batch cannot be rebuilt."""
    return f"the trajectories of step {step} were deleted by retention (replay.retain_s, replay.retain_bytes)"
