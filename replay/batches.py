"""Any past batch, rebuilt from the store."""

from replay.records import BatchRecord, Counters
from replay.store import Store
from replay.training import batch_key
from spade.errors import RunError
from spade.protocol import Batch, Group, Trajectory


def recorded(store: Store, step: int) -> BatchRecord | None:
    """What step `step` consumed, None where it was never taken."""
    return store.get("batches", batch_key(step), BatchRecord)


def batch(store: Store, record: BatchRecord) -> Batch:
    """The batch as the learner was given it, trajectories and all. Raises RunError where retention deleted those."""
    counters = store.get("meta", "counters", Counters)
    if counters is not None and record.step <= counters.dropped_step:
        raise RunError(dropped(record.step))
    groups = []
    for group in record.groups:
        keys = [member.trajectory for member in group.members]
        groups.append(
            Group(
                id=group.id,
                role=group.role,
                rewards=tuple(member.reward for member in group.members),
                trajectories=tuple(store.get_many("trajectories", keys, Trajectory)),
                baseline=group.baseline,
            )
        )
    return Batch(record.step, record.version, tuple(groups))


def dropped(step: int) -> str:
    """Why a batch cannot be rebuilt."""
    return f"the trajectories of step {step} were deleted by retention (replay.retain_s, replay.retain_bytes)"
