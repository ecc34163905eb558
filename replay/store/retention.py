"""Delete the trajectories of old batches, and keep the records of these batches.

Only trained trajectories are deleted, the oldest batch first. A trajectory stays if a resumed learner can ask for its
batch again. Each commit deletes one slice of trajectories, so that the service stays responsive.
"""

from replay.ledger.keys import make_batch_key
from replay.ledger.records import BatchRecord
from replay.ledger.state import RunState
from replay.store.store import Store
from spade.config import Learner, Replay

SLICE = 256  # most trajectories that one commit deletes


def find_unneeded(retired_step: int, learner: Learner) -> int:
    """Return the last step that a learner cannot ask for again, even if it resumes from its oldest checkpoint."""
    return max(retired_step - learner.keep_checkpoints * learner.checkpoint_every, 0)


def is_due(age_s: float, table_bytes: int, replay: Replay) -> bool:
    """Return True if the oldest batch must be deleted.

    It must if its age exceeds `retain_s`, or if all trajectories together have more bytes than `retain_bytes`.
    """
    too_old = bool(replay.retain_s) and age_s >= replay.retain_s
    return too_old or (bool(replay.retain_bytes) and table_bytes > replay.retain_bytes)


class Retention:
    """Deletes old batches, slice by slice. After a kill, the deletion of a batch begins again."""

    def __init__(self, state: RunState, store: Store) -> None:
        self._state = state
        self._store = store
        self._oldest: BatchRecord | None = None
        self._going = self._list_trajectories(self._record(state.counters.dropped_step))

    def stage(self, now: float) -> None:
        """If a batch must be deleted, mark its next slice for deletion with the next commit. `now`: the run clock."""
        state = self._state
        if not self._going and (batch := self._next(now)) is not None:
            state.counters.dropped_step = batch.step
            self._oldest, self._going = None, self._list_trajectories(batch)
        for key in self._going[:SLICE]:
            state.delete("trajectories", key)
        del self._going[:SLICE]

    def _next(self, now: float) -> BatchRecord | None:
        """Return the oldest batch that still has its trajectories, if they must be deleted."""
        config, counters = self._state.config, self._state.counters
        if not (config.replay.retain_s or config.replay.retain_bytes):
            return None
        if counters.dropped_step >= find_unneeded(counters.retired_step, config.learner):
            return None
        if self._oldest is None:
            self._oldest = self._record(counters.dropped_step + 1)
        oldest = self._oldest
        if oldest is None or not is_due(now - oldest.at, self._store.table_bytes("trajectories"), config.replay):
            return None
        return oldest

    def _record(self, step: int) -> BatchRecord | None:
        return self._store.get("batches", make_batch_key(step), BatchRecord)

    @staticmethod
    def _list_trajectories(batch: BatchRecord | None) -> list[str]:
        groups = () if batch is None else batch.groups
        return [member.trajectory for group in groups for member in group.members]
