"""Invariants of runs in simulated time with accidents of every kind."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.ledger.batches import count_waiting
from replay.ledger.pacing import compute_lag_bound
from tests.replay.replay_world import Pace, World, config, mean_lag

ACCIDENTS = st.builds(
    Pace, play_s=st.sampled_from([1.0, 4.0]), step_s=st.sampled_from([1.0, 6.0]), lost=st.sampled_from([0.0, 0.05]),
    faults=st.sampled_from([0.0, 0.1]), released=st.sampled_from([0.0, 0.05]),
    failed_designs=st.sampled_from([0.0, 0.3]), findings=st.sampled_from([0.0, 0.3]),
    audit_s=st.sampled_from([0.1, 5.0]),
)  # fmt: skip
SETTINGS = st.builds(
    lambda batch, lag, chunks, replays: config(
        f"audit.replays={replays}", f"audit.random_plays={8 * replays}", f"learner.batch_sequences={batch}",
        f"learner.agent_lag={lag}", f"play.window_chunks={chunks}", "play.lease_s=20",
        "play.window_deadline_s=60", "design.round_deadline_s=60", "learner.group_deadline_s=60",
    ),
    st.sampled_from([24, 48, 96]), st.integers(0, 4), st.integers(1, 3), st.integers(0, 2),
)  # fmt: skip


@settings(max_examples=20)
@given(SETTINGS, ACCIDENTS, st.integers(0, 1_000))
def test_invariants_hold_after_accidents_of_every_kind(settings, pace, seed):
    world = World(settings, seed, pace)
    world.run(120.0)
    state = world.ledger.state
    trained = [member.trajectory for batch in world.batches for group in batch.groups for member in group.members]

    assert not world.double_leases
    assert len(state.environments) + len(state.jobs) <= settings.design.active_environments
    assert max(Counter(trained).values(), default=1) == 1, "a trajectory was trained twice"
    assert not any("h" in key[1:] for key in trained), "a hinted play was trained"
    for batch in world.batches:
        for group in batch.groups:
            bound = compute_lag_bound(group.role, settings)
            assert all(0 <= batch.version - member.version <= bound for member in group.members)
    pending = sum(len(group.members) for group in state.design_groups.values() if not group.formed)
    counters = state.counters
    assert counters.trained == len(trained)
    assert counters.trainable == counters.trained + counters.wasted + count_waiting(state) + pending


@pytest.mark.parametrize("lag", [0, 1, 4])
@pytest.mark.parametrize(
    "pace",
    [Pace(step_s=8, play_s=2), Pace(), Pace(step_s=1, play_s=8)],
    ids=["learner", "balanced", "actors"],
)
def test_pacing_wastes_next_to_nothing(lag, pace):
    """Plays and steps of log-normal length: under 3 % of what was trainable is wasted, designs included."""
    world = World(config("learner.batch_sequences=96", f"learner.agent_lag={lag}"), 1, pace)
    world.run(400.0)
    counters = world.ledger.state.counters
    assert len(world.batches) > (5 if lag else 4)
    assert counters.wasted < 0.03 * counters.trainable
    assert mean_lag(world) <= lag
