"""Rebuild past batches from the store."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from replay.ledger.keys import make_batch_key
from replay.ledger.records import BatchRecord, RunCounters
from replay.store.store import Store
from spade.codec import encode
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
    """Rebuild the batch as the learner got it. Raises RunError if retention deleted its trajectories."""
    counters = store.get("meta", "counters", RunCounters)
    if counters is not None and record.step <= counters.dropped_step:
        raise RunError(explain_dropped(record.step))
    decode = msgspec.msgpack.Decoder(Trajectory).decode
    return store.bodies(_list_trajectories(record), lambda bodies: _build(record, map(decode, bodies)))


def read_packed_batch(store: Store, record: BatchRecord, last: bool = False) -> bytes:
    """Return the encoded batch for the learner. Copies the stored bytes of its trajectories. `last`: see `Batch`."""
    keys = _list_trajectories(record)
    return store.bodies(keys, lambda bodies: encode(_build(record, map(msgspec.Raw, bodies), last)))


def _list_trajectories(record: BatchRecord) -> list[str]:
    return [member.trajectory for group in record.groups for member in group.members]


def _build(record: BatchRecord, trajectories: Iterator[Any], last: bool = False) -> Batch:
    """Return the batch. `trajectories` are given in the order of the groups and their members."""
    groups = (
        Group(
            id=group.id,
            role=group.role,
            rewards=tuple(member.reward for member in group.members),
            trajectories=tuple(islice(trajectories, len(group.members))),
            baseline=group.baseline,
        )
        for group in record.groups
    )
    return Batch(record.step, record.version, tuple(groups), last)


def explain_dropped(step: int) -> str:
    """Explain why a batch cannot be rebuilt."""
    return f"the trajectories of step {step} were deleted by retention (replay.retain_s, replay.retain_bytes)"
