"""The queue, batches, lag bounds, versions, and retirement."""

import msgspec
import pytest

from replay.ledger import provenance
from replay.ledger.batches import RefusalError, count_waiting, enqueue
from replay.ledger.ledger import Ledger
from replay.ledger.pacing import compute_lag_bound
from replay.ledger.records import Member
from replay.ledger.state import RunState
from spade.config import load
from spade.protocol import Checkpointed, Published, TakeBatch
from tests.replay.replay_world import SECRET, config, started, trajectory, weights

BASE = ("learner.batch_sequences=8", "learner.agent_lag=2", "play.window_chunks=1", "learner.group_deadline_s=100")


def begin(*overrides):
    return started(config(*BASE, *overrides))


def group(ledger, name, versions, role="agent", now=0.0, before=None):
    """A trainable group, its returns 1 0 1 0 …, as windows and designs would queue it."""
    members = tuple(Member(f"{name}/{i}", float(i % 2 == 0), version) for i, version in enumerate(versions))
    ledger.state.counters.trainable += len(members)
    ledger.state.counters.designer_trainable += len(members) if role == "designer" else 0
    enqueue(ledger.state, name, role, members, now, before)


def take(ledger, step, now=0.0):
    return ledger.apply(TakeBatch(step, 0.0), "learner", now)


def names(batch):
    return [group.id for group in batch.groups]


def advance_to(ledger, step):
    """Take and publish the steps up to `step`."""
    for number in range(ledger.state.counters.taken_step + 1, step + 1):
        group(ledger, f"filler {number}", [ledger.state.version] * 8)
        assert take(ledger, number) is not None
        ledger.apply(weights(number), "learner", 0.0)


@pytest.fixture
def ledger():
    return begin()


def test_a_batch_is_whole_groups_of_either_role_in_order_until_it_is_full(ledger):
    group(ledger, "a", [1] * 4)
    assert take(ledger, 1) is None
    group(ledger, "d", [1] * 3, role="designer")
    assert take(ledger, 1) is None
    group(ledger, "b", [1] * 4)
    group(ledger, "c", [1] * 4)
    batch = take(ledger, 1)
    assert (names(batch), batch.version) == (["a", "d", "b"], 1)
    assert [g.id for g in ledger.state.queue.values()] == ["c"]


def test_a_step_taken_again_gets_the_recorded_batch(ledger):
    for name in "abcd":
        group(ledger, name, [1] * 4)
    first = take(ledger, 1)
    assert take(ledger, 1) is first
    ledger.apply(weights(1), "learner", 0.0)
    assert names(take(ledger, 2)) == ["c", "d"]
    assert take(ledger, 1) is first


def test_no_batch_before_the_first_weights():
    fresh = Ledger(RunState(config(*BASE), SECRET))
    group(fresh, "a", [1] * 8)
    assert take(fresh, 1) is None


def test_a_step_that_is_not_the_next_is_refused():
    for step in (2, 0, -1):
        with pytest.raises(RefusalError, match=rf"step {step} .*cannot be taken: .* 1"):
            take(begin(), step)


def test_agent_members_over_the_lag_bound_are_wasted_and_the_rest_is_trained(ledger):
    advance_to(ledger, 3)  # version 4: a lag of 2 reaches back to version 2
    group(ledger, "a", [1, 2, 3, 4, 4, 4, 4, 4, 4])
    batch = take(ledger, 4)
    assert [member.version for g in batch.groups for member in g.members] == [2, 3, 4, 4, 4, 4, 4, 4]
    assert ledger.state.counters.wasted == 1
    assert ledger.state.counters.lag_mean == pytest.approx(3 / 8)


def test_a_group_that_can_no_longer_teach_is_wasted_whole(ledger):
    advance_to(ledger, 3)
    group(ledger, "a", [1, 4, 1, 4])  # the returns left are 0 and 0
    assert take(ledger, 4) is None
    assert ledger.state.counters.wasted == 4
    assert count_waiting(ledger.state) == 0


def test_designers_have_a_bound_of_their_own_and_alone_a_baseline():
    ledger = begin("design.active_environments=1")
    assert compute_lag_bound("designer", ledger.state.config) == 10
    advance_to(ledger, 11)  # version 12: a lag of 10 reaches back to version 2
    group(ledger, "d", [1, 2], role="designer", before=0.25)
    group(ledger, "e", [2, 3], role="designer", before=0.25)
    group(ledger, "a", [12] * 6)
    batch = take(ledger, 12)
    assert [(g.id, len(g.members), g.baseline) for g in batch.groups] == [
        ("d", 1, 0.25),
        ("e", 2, None),
        ("a", 6, None),
    ]
    counters = ledger.state.counters
    assert (counters.wasted, counters.designer_wasted, counters.designer_trained) == (1, 1, 3)
    assert (counters.wasted_share, counters.wasted_share_agent, counters.wasted_share_designer) == (
        1 / counters.trainable, 0.0, 1 / 4,
    )  # fmt: skip
    assert counters.designer_groups == 2


@pytest.mark.parametrize(("overrides", "versions"), [
    ((), 2 * 8 + 8),  # 4 chunks of 24 x 16 plays are 8 batches of 192
    (("learner.publish_every=2",), 2 * 4 + 8),  # lag counts publications
    (("learner.batch_sequences=128", "play.window_chunks=3"), 2 * 9 + 8),
    (("learner.batch_sequences=10_000", "bus.max_message_bytes=4_000_000_000"), 2 * 4 + 8),  # a version a chunk
    (("design.active_environments=25",), 2 * 9 + 8),  # rounded up
])  # fmt: skip
def test_the_designers_bound_follows_from_the_window(overrides, versions):
    assert compute_lag_bound("designer", load("games-4b", overrides)) == versions
    assert compute_lag_bound("agent", load("games-4b", overrides)) == 4


def test_nanos_bound_is_twelve():
    assert compute_lag_bound("designer", load("nano")) == 2 * 2 + 8


def test_the_bound_is_against_the_version_the_batch_will_be_trained_at():
    """Step 2 is asked for while step 1 trains: it will be trained at version 2."""
    ledger = begin("learner.agent_lag=0")
    group(ledger, "a", [1] * 8)
    group(ledger, "b", [1] * 8)
    assert take(ledger, 1).version == 1
    assert take(ledger, 2) is None
    assert ledger.state.counters.wasted == 8


def test_publishing_every_other_step_counts_versions_and_not_steps():
    ledger = begin("learner.publish_every=2")
    for name in "abc":
        group(ledger, name, [1] * 8)
    assert [take(ledger, step).version for step in (1, 2)] == [1, 1]
    assert take(ledger, 3).version == 2


def test_a_group_past_its_deadline_is_wasted(ledger):
    group(ledger, "a", [1] * 4, now=0.0)
    group(ledger, "b", [1] * 8, now=50.0)
    ledger.tick(100.0, None)
    assert ledger.state.counters.wasted == 4
    assert names(take(ledger, 1, now=100.0)) == ["b"]


def test_versions_count_up_and_are_never_used_twice(ledger):
    advance_to(ledger, 2)
    answers = [ledger.apply(weights(2, digest), "learner", 0.0) for digest in ("x", "y")]
    assert [answer.weights.version for answer in answers if isinstance(answer, Published)] == [4, 5]


def test_the_same_weights_after_the_same_step_keep_their_version(ledger):
    """A publication sent again, and a learner that replays the steps since its checkpoint."""
    advance_to(ledger, 3)
    ledger.state.changes()
    for step, version in ((3, 4), (0, 1), (1, 2), (3, 4)):
        assert ledger.apply(weights(step), "learner", 0.0).weights.version == version
    assert ledger.state.version == 4
    assert not any(table == "publications" for table, _, _ in ledger.state.changes())


def test_a_resume_that_comes_out_otherwise_draws_new_versions(ledger):
    advance_to(ledger, 3)
    assert ledger.apply(weights(1, "otherwise"), "learner", 0.0).weights.version == 5
    assert (ledger.state.version, ledger.state.published_step) == (5, 1)
    # Steps 2 and 3 are still to be replayed before step 4 trains.
    assert ledger.state.version_at(4) == 7


def test_weights_of_a_step_never_taken_are_refused(ledger):
    for step in (1, -1):
        with pytest.raises(RefusalError, match="cannot be published"):
            ledger.apply(weights(step), "learner", 0.0)


def test_batches_retire_at_the_checkpoint(ledger):
    advance_to(ledger, 3)
    ledger.apply(Checkpointed(2), "learner", 0.0)
    assert list(ledger.state.batches) == [3]
    assert [weights.step for weights in ledger.state.counters.recent] == [2, 3]
    # The learner resumes at step 2 and publishes what it published then.
    assert ledger.apply(weights(2), "learner", 0.0).weights.version == 3
    ledger.apply(Checkpointed(1), "learner", 0.0)
    assert ledger.state.counters.retired_step == 2
    with pytest.raises(RefusalError, match="cannot retire"):
        ledger.apply(Checkpointed(4), "learner", 0.0)


def test_a_resume_that_comes_out_otherwise_wastes_no_waiting_group():
    """The learner crashed after step 5 with a checkpoint of step 2: other versions of the same steps, no more lag."""
    ledger = begin("learner.agent_lag=3")
    advance_to(ledger, 2)
    ledger.apply(Checkpointed(2), "learner", 0.0)
    advance_to(ledger, 5)
    group(ledger, "a", [4] * 8)
    group(ledger, "d", [3] * 2, role="designer", before=0.25)
    ledger.apply(weights(2, "resumed"), "learner", 0.0)
    group(ledger, "b", [7] * 8)  # sampled by what was resumed from
    for step in (3, 4, 5):
        ledger.tick(1.0, None)
        assert take(ledger, step) is ledger.state.batches[step]
        ledger.apply(weights(step, f"resumed {step}"), "learner", 0.0)
    ledger.tick(1.0, None)
    assert (count_waiting(ledger.state), ledger.state.counters.wasted) == (18, 0)
    batch = take(ledger, 6)
    assert (names(batch), batch.version) == (["a"], 10)
    assert ledger.state.counters.lag_mean == 2  # version 4 came from step 3, step 6 trains what came from step 5


def test_a_trajectory_of_two_courses_of_the_learner_is_as_old_as_the_earlier_step(ledger):
    """Version 6 is step 5 of the first course, version 7 step 2 of the second: the higher is the older."""
    advance_to(ledger, 5)
    ledger.apply(weights(2, "resumed"), "learner", 0.0)
    both = msgspec.structs.replace(trajectory(6), versions=((6, 1), (7, 1)))
    assert provenance.find_oldest(ledger.state.steps, both) == 7
    assert provenance.find_oldest(ledger.state.steps, trajectory(6, sampled=0)) == 0
