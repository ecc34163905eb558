"""The end of a run: what is given out before it and at it, by steps, rollouts and time."""

import pytest

from replay.ledger import pacing
from replay.ledger.records import BatchRecord
from spade import protocol
from spade.config import Limits
from tests.replay.replay_world import Pace, World, config, environment, leased_job, played, started, weights

SLOTS = (
    "design.active_environments=2", "design.round_jobs=2", "design.active_skills=1", "play.group_size=2",
    "play.window_chunks=2", "learner.batch_sequences=2", "design.attempts=1000",
)  # fmt: skip


def play_on(ledger, now=0.0):
    """End all that is leased now; the first play of a chunk is won, so that it can be trained."""
    plays = ledger.apply(protocol.LeasePlays(100, 0.0), "agent/1", now)
    for place, play in enumerate(plays.plays if plays else ()):
        ledger.apply(played(play, float(place % 2), ledger.state.version), "agent/1", now)
        ledger.advance(now)
    return len(plays.plays) if plays else 0


def asked(ledger, now=0.0):
    """Every kind of new work that is given out now."""
    step = ledger.state.counters.taken_step + 1
    requests = (
        protocol.LeasePlays(1, 0.0), protocol.LeaseDesigns(1, 0.0), protocol.LeaseAudit(0.0),
        protocol.TakeBatch(step, 0.0),
    )  # fmt: skip
    return [type(request).__name__ for request in requests if ledger.apply(request, "all/1", now) is not None]


def test_with_its_last_batch_a_run_gives_no_more_work_and_with_its_checkpoint_it_is_over():
    ledger = started(config(*SLOTS, "limits.steps=1", "learner.publish_every=3"))
    state = ledger.state
    ledger.apply(environment(leased_job(ledger), 1), "designer/1", 0.0)
    play_on(ledger)
    batch = ledger.apply(protocol.TakeBatch(1, 0.0), "learner/1", 0.0)
    assert isinstance(batch, BatchRecord)
    assert asked(ledger) == []
    ledger.tick(1e6, None)
    assert not state.jobs or all(job.state == "open" for job in state.jobs.values())
    assert not pacing.describe_reached(state, 0.0)
    assert ledger.apply(protocol.TakeBatch(1, 0.0), "learner/1", 0.0) == batch  # a learner that was killed has it again
    ledger.apply(weights(1), "learner/1", 0.0)
    assert not pacing.describe_reached(state, 0.0)
    ledger.apply(protocol.Checkpointed(1), "learner/1", 0.0)
    assert pacing.describe_reached(state, 0.0) == "1 learner steps were made (limits.steps = 1)"


@pytest.mark.parametrize("steps", [1, 4, 7])
def test_no_batch_is_handed_out_beyond_the_limit_of_steps(steps):
    world = World(config(*SLOTS, f"limits.steps={steps}"), 5, Pace(lost=0.05, faults=0.02))
    world.run(2_000.0)
    assert [batch.step for batch in world.batches] == list(range(1, steps + 1))


def test_a_rollout_is_a_chunk_of_unhinted_plays_for_every_slot():
    world = World(config(*SLOTS, "limits.rollouts=3"), 5, Pace(episodes=4))
    state, leased = world.ledger.state, []
    world.run(2_000.0, lambda world: leased.append((pacing.count_rollouts(world.ledger.state), len(world.leases))))
    # Two slots of two plays are a rollout: hinted twins of the first chunk count for nothing.
    assert state.counters.unhinted == 4 * pacing.count_rollouts(state) < state.counters.plays
    assert 3.0 <= pacing.count_rollouts(state) < 4.0
    assert len({leases for done, leases in leased if done >= 3.0}) == 1
    assert asked(world.ledger, world.now) == []
    assert pacing.describe_reached(state, world.now) == "3 rollouts were played (limits.rollouts = 3)"


def test_time_counts_on_the_run_clock():
    ledger = started(config(*SLOTS, "limits.seconds=60"))
    assert asked(ledger, 59.9) == ["LeaseDesigns"]
    assert asked(ledger, 60.0) == []
    assert pacing.describe_reached(ledger.state, 60.0) == "it was up for 60 s (limits.seconds = 60)"


def test_without_limits_a_run_never_ends():
    ledger = started(config(*SLOTS))
    assert asked(ledger, 1e8) == ["LeaseDesigns"]
    assert pacing.describe_reached(ledger.state, 1e8) == ""


def given(state, now=0.0, command="one", **limits):
    """A command with limits of its own starts the run."""
    pacing.begin_command(state, command, Limits(**limits), now)


def test_the_time_of_a_command_counts_from_its_start_and_ends_with_it():
    ledger = started(config(*SLOTS))
    state = ledger.state
    given(state, 1_175.0, seconds=90.0)
    assert pacing.describe_reached(state, 1_264.0) == ""
    assert pacing.describe_reached(state, 1_265.0) == "its last start was up for 90 s (--for 90)"
    assert asked(ledger, 1_265.0) == []
    given(state, 1_260.0, seconds=90.0)  # the service alone was started again: it counts on
    assert pacing.describe_reached(state, 1_265.0)
    given(state, 1_265.0, "two", seconds=90.0)
    assert pacing.describe_reached(state, 1_354.0) == ""
    given(state, 1_355.0, "three")
    assert pacing.describe_reached(state, 1e8) == ""


def test_the_limits_of_the_run_bound_a_command_with_larger_ones():
    state = started(config(*SLOTS, "limits.seconds=60")).state
    given(state, 50.0, seconds=90.0)
    assert pacing.describe_reached(state, 60.0) == "it was up for 60 s (limits.seconds = 60)"


def test_the_rollouts_of_a_command_count_from_its_start():
    world = World(config(*SLOTS), 5, Pace(episodes=4))
    state = world.ledger.state
    world.run(100.0)
    begun = pacing.count_rollouts(state)
    assert begun > 0.0
    given(state, world.now, rollouts=3)
    world.run(2_000.0)
    assert begun + 3.0 <= pacing.count_rollouts(state) < begun + 4.0
    assert pacing.describe_reached(state, world.now) == "its last start played 3 rollouts (--rollouts 3)"


def test_the_steps_of_a_command_count_from_where_its_learner_resumes():
    ledger = started(config(*SLOTS))
    state = ledger.state
    jobs = [leased_job(ledger), leased_job(ledger)]
    for step, job in enumerate(jobs, 1):
        ledger.apply(environment(job, state.version, f"Lamp{step}"), "designer/1", 0.0)
        play_on(ledger)
        assert isinstance(ledger.apply(protocol.TakeBatch(step, 0.0), "learner/1", 0.0), BatchRecord)
        ledger.apply(weights(step), "learner/1", 0.0)
    given(state, 0.0, steps=1)
    # It was killed before its first checkpoint: step 1 is the one step of this command, step 2 is left to another.
    assert pacing.find_last_step(state) == float("inf")
    assert ledger.apply(protocol.TakeBatch(1, 0.0), "learner/1", 0.0).step == pacing.find_last_step(state) == 1
    assert ledger.apply(protocol.TakeBatch(2, 0.0), "learner/1", 0.0) is None
    ledger.apply(protocol.Checkpointed(1), "learner/1", 0.0)
    assert pacing.describe_reached(state, 0.0) == "its last start made 1 learner steps (--steps 1)"
    given(state, 0.0, "two", steps=20)
    assert ledger.apply(protocol.TakeBatch(2, 0.0), "learner/1", 0.0).step == 2
    assert pacing.find_last_step(state) == 21
