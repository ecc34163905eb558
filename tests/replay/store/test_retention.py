"""Retention: what goes, in which slices, and what is never touched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.ledger.ledger import Ledger
from replay.ledger.records import BatchRecord, PlayRecord
from replay.store import open_store
from replay.store.load import load
from replay.store.past_batches import read_batch, read_recorded
from replay.store.retention import SLICE, Retention, find_unneeded, is_due
from spade.config import Learner, Replay
from spade.errors import RunError
from spade.protocol import Trajectory
from tests.peers import changed
from tests.replay.replay_world import SECRET, Pace, World, config

SETTINGS = config(
    "learner.batch_sequences=24", "learner.checkpoint_every=2", "learner.keep_checkpoints=2", "replay.retain_s=20"
)


@pytest.mark.parametrize(("age_s", "table_bytes", "retain_s", "retain_bytes", "goes"), [
    (1e9, 10**12, 0.0, 0, False),
    (59.0, 10**12, 60.0, 0, False),
    (60.0, 0, 60.0, 0, True),
    (1e9, 1_000, 0.0, 1_000, False),
    (0.0, 1_001, 0.0, 1_000, True),
    (60.0, 0, 60.0, 1_000, True),
    (0.0, 1_001, 60.0, 1_000, True),
    (59.0, 1_000, 60.0, 1_000, False),
])  # fmt: skip
def test_too_old_or_too_much(age_s, table_bytes, retain_s, retain_bytes, goes):
    assert is_due(age_s, table_bytes, Replay(retain_s=retain_s, retain_bytes=retain_bytes)) is goes


@given(st.integers(0, 1_000), st.integers(1, 50), st.integers(1, 5))
def test_no_kept_checkpoint_needs_a_deleted_trajectory(retired, every, keep):
    last = find_unneeded(retired, Learner(checkpoint_every=every, keep_checkpoints=keep))
    oldest_kept = max(retired - (keep - 1) * every, 0)
    assert 0 <= last <= oldest_kept


def live(store, world, until):
    """Run on as the service would: stage a slice, commit, after every event; the largest slice."""
    retention, largest = Retention(world.ledger.state, store), 0

    def watch(world):
        nonlocal largest
        retention.stage(world.now)
        changes = world.ledger.state.changes()
        largest = max(largest, sum(table == "trajectories" and record is None for table, _, record in changes))
        if changes:
            store.commit(store.encode(changes))

    world.run(until, watch)
    return largest


def test_old_batches_lose_their_trajectories_and_nothing_else_does(tmp_path, monkeypatch):
    monkeypatch.setattr("replay.store.retention.SLICE", 7)
    with open_store(tmp_path, "nosync") as store:
        world = World(SETTINGS, 3, Pace(step_s=1.0, play_s=1.0))
        for until in (30.0, 60.0, 90.0):
            assert live(store, world, until) <= 7
            world.ledger = Ledger(load(store, SETTINGS, SECRET))
        counters = world.ledger.state.counters
        assert 0 < counters.dropped_step <= find_unneeded(counters.retired_step, SETTINGS.learner)
        assert [record.step for record in store.scan("batches", BatchRecord)] == list(range(1, counters.taken_step + 1))
        trained = set()
        for taken in world.batches:
            keys = {member.trajectory for group in taken.groups for member in group.members}
            trained |= keys
            there = [store.get("trajectories", key, Trajectory) is not None for key in keys]
            if taken.step < counters.dropped_step:
                assert not any(there)
            elif taken.step > counters.dropped_step:
                assert all(there)
        for play in store.scan("plays", PlayRecord):
            if play.state == "finished" and play.id not in trained:
                assert store.get("trajectories", play.id, Trajectory) is not None
        record = read_recorded(store, 1)
        with pytest.raises(RunError, match="step 1 were deleted by retention"):
            read_batch(store, record)


def test_size_bounds_the_table_as_far_as_training_allows(tmp_path):
    by_size = changed(SETTINGS, replay={"retain_s": 0.0, "retain_bytes": 65_536})
    with open_store(tmp_path, "nosync") as store:
        world = World(by_size, 3, Pace(step_s=1.0, play_s=1.0))
        assert live(store, world, 60.0) <= SLICE
        state = world.ledger.state
        assert store.table_bytes("trajectories") > 65_536  # plays that were never trained are not touched
        assert state.counters.dropped_step == find_unneeded(state.counters.retired_step, by_size.learner) > 0
