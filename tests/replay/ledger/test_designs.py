"""Rounds, design jobs and designer groups."""

import msgspec
import pytest

from replay.ledger.batches import RefusalError, enqueue
from replay.ledger.environment_memory import EnvironmentMemory
from replay.ledger.ledger import Ledger
from replay.ledger.pacing import compute_lag_bound
from replay.ledger.records import Member, MemoryEntry
from replay.ledger.state import RunState
from spade.config import SKILLS
from spade.protocol import LeaseDesigns, LeasePlays, ReleaseDesign, TakeBatch
from tests.replay.replay_world import SECRET, config, environment, played, rejected, started, trajectory, weights

# 4 slots, rounds of 4 jobs over 2 skills, windows of one chunk of 2 plays
SMALL = (
    "design.active_environments=4", "design.round_jobs=4", "design.active_skills=2", "play.window_chunks=1",
    "play.group_size=2", "learner.batch_sequences=2", "design.lease_s=10", "design.round_deadline_s=100",
    "design.attempts=5",
)  # fmt: skip


@pytest.fixture
def ledger():
    return started(config(*SMALL))


def lease(ledger, count=1, now=0.0, holder="designer/1"):
    answer = ledger.apply(LeaseDesigns(count, 0.0), holder, now)
    return answer.jobs if answer else ()


def play_out(ledger, unhinted, hinted=(1.0, 1.0), now=1.0):
    """Play all that is open; returns by arm in the order of the plays."""
    for play in ledger.apply(LeasePlays(100, 0.0), "agent/1", now).plays:
        value = (hinted if play.hinted else unhinted)[int(play.id[-3:])]
        ledger.apply(played(play, value, 1), "agent/1", now)
    ledger.advance(now)


def test_nothing_is_designed_before_the_first_weights():
    fresh = Ledger(RunState(config(*SMALL), SECRET))
    fresh.advance(0.0)
    assert lease(fresh, 4) == ()


def test_skills_rotate_so_many_at_a_time_round_robin(ledger):
    skills = []
    for _ in range(8):
        for job in lease(ledger, 4):
            skills.append((job.round, SKILLS.index(job.skill)))
            ledger.apply(rejected(job, 1, last=True), "designer/1", 0.0)
        ledger.advance(0.0)
    assert skills[:16] == [
        (r, s) for r, pair in enumerate([(0, 1), (2, 3), (4, 5), (0, 1)]) for s in pair for _ in range(2)
    ]


@pytest.mark.parametrize("change", [("design.round_jobs=12",), ("design.round_jobs=2", "design.active_skills=1")])
def test_a_round_in_progress_keeps_its_shape_whatever_a_resume_changes(change):
    slots = ("design.active_environments=3",)
    ledger = started(config(*SMALL, *slots))
    ledger.state.config = config(*SMALL, *slots, *change)
    jobs = []
    for _ in range(10):
        for job in lease(ledger, 3):
            jobs.append(job)
            ledger.apply(rejected(job, 1, last=True), "designer/1", 0.0)
        ledger.advance(0.0)
    assert [job.round for job in jobs[:5]] == [0, 0, 0, 0, 1]
    assert [SKILLS.index(job.skill) for job in jobs[:4]] == [0, 0, 1, 1]
    size = ledger.state.config.design.round_jobs
    assert [job.round for job in jobs].count(1) == size
    trained = [group for group in ledger.state.queue.values() if group.id.startswith("r00000")]
    assert [len(group.members) for group in trained] == [2, 2]


def test_jobs_and_environments_together_fill_the_slots(ledger):
    first, *_ = lease(ledger, 10)
    assert len(ledger.state.jobs) == 4
    ledger.apply(environment(first, 1), "designer/1", 0.0)
    ledger.advance(0.0)
    assert (len(ledger.state.jobs), len(ledger.state.environments)) == (3, 1)


def test_a_lease_carries_draws_that_are_the_jobs_own(ledger):
    jobs = lease(ledger, 4)
    assert len({job.draw for job in jobs}) == len({job.sampler for job in jobs}) == 4
    ledger.apply(ReleaseDesign(jobs[0].id, jobs[0].lease), "designer/1", 0.0)
    (again,) = lease(ledger)
    # The same job on the same document, but it does not repeat the attempts of the lease before.
    assert (again.id, again.draw, again.lease) == (jobs[0].id, jobs[0].draw, 2)
    assert again.sampler != jobs[0].sampler


def test_an_expired_lease_opens_again_and_is_counted(ledger):
    lease(ledger, 4)
    ledger.tick(9.9, None)
    assert lease(ledger, 4) == ()
    ledger.tick(10.0, None)
    assert len(lease(ledger, 4, now=10.0)) == 4
    assert ledger.state.counters.expired_leases == 4


def test_a_holder_that_is_gone_loses_its_leases_at_once(ledger):
    lease(ledger, 2, holder="designer-0/11")
    lease(ledger, 2, holder="designer-1/12")
    ledger.tick(1.0, frozenset({"designer-1/12"}))
    assert [job.holder for job in ledger.state.jobs.values()] == ["", "", "designer-1/12", "designer-1/12"]


def test_a_release_of_an_older_lease_changes_nothing(ledger):
    (job, *_) = lease(ledger, 4)
    ledger.tick(10.0, None)
    (again,) = lease(ledger, 1, now=10.0)
    ledger.apply(ReleaseDesign(job.id, job.lease), "designer/1", 10.0)
    assert (again.id, ledger.state.jobs[job.id].state) == (job.id, "leased")


def test_every_reject_is_kept_once_with_its_trajectory(ledger):
    (job, *_) = lease(ledger, 4)
    ledger.state.changes()
    for attempt in (1, 2, 2, 1):
        ledger.apply(rejected(job, 1, attempt=attempt), "designer/1", 0.0)
    written = {(table, key) for table, key, _ in ledger.state.changes()}
    assert {key for table, key in written if table == "rejects"} == {f"{job.id}/001/001", f"{job.id}/001/002"}
    assert {key for table, key in written if table == "trajectories"} == {f"{job.id}/001/001", f"{job.id}/001/002"}
    assert ledger.state.counters.rejected_candidates == 2


def test_the_last_attempt_of_a_lost_lease_does_not_fail_the_job(ledger):
    (job, *_) = lease(ledger, 4)
    ledger.tick(10.0, None)
    lease(ledger, 1, now=10.0)
    ledger.apply(rejected(job, 1, attempt=5, last=True), "designer/1", 10.0)
    assert ledger.state.counters.failed_jobs == 0
    assert ledger.state.counters.rejected_candidates == 1


def test_an_environment_counts_once(ledger):
    (job, *_) = lease(ledger, 4)
    for _ in range(2):
        ledger.apply(environment(job, 1), "designer/1", 0.0)
    assert ledger.state.counters.environments == len(ledger.state.environments) == 1


def test_failed_jobs_are_members_with_reward_zero_and_their_last_attempt(ledger):
    """One of two fails, the other earns its anchor: the group is trainable when both are known."""
    good, bad, *_ = lease(ledger, 4)
    ledger.apply(environment(good, 1), "designer/1", 0.0)
    ledger.apply(rejected(bad, 1, attempt=1), "designer/1", 0.0)
    ledger.apply(rejected(bad, 1, attempt=2, last=True), "designer/1", 0.0)
    play_out(ledger, unhinted=(1.0, 0.0))
    group = ledger.apply(TakeBatch(1, 0.0), "learner", 1.0).groups[-1]
    if group.role == "agent":
        ledger.apply(weights(1), "learner", 1.0)
        group = ledger.apply(TakeBatch(2, 0.0), "learner", 1.0).groups[-1]
    assert group.role == "designer"
    assert {member.trajectory: member.reward for member in group.members} == {f"{bad.id}/001/002": 0.0, good.id: 1.0}
    assert group.baseline is None


def test_at_the_rounds_deadline_the_group_goes_with_those_it_has(ledger):
    good, *_ = lease(ledger, 4)
    ledger.apply(environment(good, 1), "designer/1", 0.0)
    play_out(ledger, unhinted=(1.0, 1.0), hinted=(1.0, 1.0))
    assert not ledger.state.queue
    ledger.tick(100.0, None)
    (group,) = ledger.state.queue.values()
    assert [member.trajectory for member in group.members] == [good.id]


def train_to(ledger, step):
    """Take and publish the steps up to `step`, of plays of the newest weights."""
    for number in range(ledger.state.counters.taken_step + 1, step + 1):
        members = tuple(Member(f"filler {number}/{i}", float(i), ledger.state.version) for i in range(2))
        enqueue(ledger.state, f"filler {number}", "agent", members, 1.0)
        assert ledger.apply(TakeBatch(number, 0.0), "learner", 1.0) is not None
        ledger.apply(weights(number), "learner", 1.0)


def test_a_group_does_not_wait_until_its_members_are_too_old(ledger):
    """It goes with those it has into the last batch that may train its oldest; the slow one alone is wasted."""
    good, slow, *_ = lease(ledger, 4)
    ledger.apply(environment(good, 1), "designer/1", 0.0)
    play_out(ledger, unhinted=(1.0, 1.0))
    bound = compute_lag_bound("designer", ledger.state.config)
    train_to(ledger, bound - 1)
    ledger.tick(1.0, None)
    assert not ledger.state.queue
    train_to(ledger, bound)
    ledger.tick(1.0, None)
    (group,) = ledger.state.queue.values()
    assert [member.trajectory for member in group.members] == [good.id]
    train_to(ledger, bound + 1)
    ledger.apply(rejected(slow, 1, last=True), "designer/1", 1.0)
    counters = ledger.state.counters
    assert (counters.designer_trained, counters.designer_wasted) == (1, 1)


def test_a_group_counts_the_batches_that_wait_before_it(ledger):
    good, *_ = lease(ledger, 4)
    ledger.apply(environment(good, 1), "designer/1", 0.0)
    play_out(ledger, unhinted=(1.0, 1.0))
    train_to(ledger, compute_lag_bound("designer", ledger.state.config) - 1)
    enqueue(ledger.state, "filler", "agent", tuple(Member(f"f/{i}", float(i), 1) for i in range(2)), 1.0)
    ledger.tick(1.0, None)
    assert [group.role for group in ledger.state.queue.values()][-1] == "designer"


def test_a_member_after_the_deadline_is_wasted_and_counted(ledger):
    good, slow, *_ = lease(ledger, 4)
    ledger.apply(environment(good, 1), "designer/1", 0.0)
    play_out(ledger, unhinted=(1.0, 1.0))
    ledger.tick(100.0, None)
    ledger.apply(rejected(slow, 1, last=True), "designer/1", 101.0)
    (group,) = ledger.state.queue.values()
    counters = ledger.state.counters
    assert len(group.members) == 1
    assert (counters.wasted, counters.trainable) == (1, 2)


def test_alone_in_its_group_it_is_compared_with_the_skills_mean_before_it():
    ledger = started(config(*SMALL, "design.round_jobs=2", "learner.batch_sequences=100"))
    seen = {}
    for number in range(18):
        ledger.advance(0.0)
        (job,) = lease(ledger)
        ledger.apply(environment(job, 1), "designer/1", 0.0)
        # Rewards of a skill's three jobs: 1.0 (in the band, helped by the hint), 0.4 (helped alone), 0.0
        outcome, hinted = [((1.0, 0.0), (1.0, 1.0)), ((0.0, 0.0), (1.0, 1.0)), ((1.0, 1.0), (1.0, 1.0))][number // 6]
        play_out(ledger, outcome, hinted)
        group = [group for group in ledger.state.queue.values() if group.role == "designer"][-1]
        seen.setdefault(job.skill, []).append((group.members[0].reward, group.baseline))
    assert len(seen) == 6
    for figures in seen.values():
        assert [reward for reward, _ in figures] == pytest.approx([1.0, 0.4, 0.0])
        assert figures[0][1] is None
        assert [before for _, before in figures[1:]] == pytest.approx([1.0, 0.7])


def test_a_design_without_a_sampled_token_is_no_member(ledger):
    (job, other, *_) = lease(ledger, 4)
    empty = msgspec.structs.replace(rejected(job, 1, last=True), trajectory=trajectory(1, sampled=0))
    ledger.apply(empty, "designer/1", 0.0)
    ledger.apply(rejected(other, 1, last=True), "designer/1", 0.0)
    (group,) = ledger.state.queue.values()
    assert [member.trajectory for member in group.members] == [f"{other.id}/001/001"]


def test_seeds_of_the_memory_reach_the_job(ledger):
    (job, *_) = lease(ledger, 4)
    ledger.apply(environment(job, 1), "designer/1", 0.0)
    play_out(ledger, unhinted=(1.0, 0.0))
    for _ in range(40):
        for leased in lease(ledger, 4):
            if leased.skill == job.skill:
                assert [seed.environment for seed in leased.seeds] == ["e000000"]
                assert leased.seeds[0].source == "class LampEnv: ..."
                assert ledger.state.jobs[leased.id].seeds == ("e000000",)
                return
            ledger.apply(rejected(leased, 1, last=True), "designer/1", 0.0)
        ledger.advance(0.0)
    pytest.fail("the skill never came again")


def remember(ledger, number):
    """An environment of the memory that designers vary."""
    ledger.state.memory.add(MemoryEntry(number, f"m{number}", SKILLS[0], "class M: ...", 0.5, 0.5, 0.9))


def test_the_parents_are_those_that_the_lease_was_shown_that_handed_in(ledger):
    """A job whose lease ran out is leased again and shown other seeds; the first designer's program comes after all."""
    remember(ledger, 0)
    first = lease(ledger)[0]
    ledger.state.memory = EnvironmentMemory(10)
    remember(ledger, 1)
    ledger.tick(11.0, None)
    second = lease(ledger, now=11.0)[0]
    assert (first.id, [seed.environment for seed in first.seeds]) == (second.id, ["m0"])
    assert [seed.environment for seed in second.seeds] == ["m1"]
    ledger.apply(environment(first, 1), "designer/1", 12.0)
    assert ledger.state.environments["e000000"].parents == ("m0",)


def test_an_example_that_was_not_shown_is_no_parent(ledger):
    """The lease had two to vary; one did not fit into the prompt, and what is to be avoided is varied by nobody."""
    for number in range(2):
        remember(ledger, number)
    ledger.state.memory.add(MemoryEntry(2, "m2", SKILLS[0], "class M: ...", 0.0, 1.0, 1.0))
    ledger.state.config = config(*SMALL, "design.memory_seeds=2")
    job = lease(ledger)[0]
    assert {seed.environment for seed in job.seeds} == {"m0", "m1"}
    ledger.apply(msgspec.structs.replace(environment(job, 1), shown=("m2", "m1", "m9")), "designer/1", 1.0)
    assert ledger.state.environments["e000000"].parents == ("m1",)
    assert ledger.state.statistics.examples_shown() == 3


def test_without_memory_seeds_no_example_is_shown_to_avoid_either(ledger):
    ledger.state.memory.add(MemoryEntry(0, "m0", SKILLS[0], "class M: ...", 0.0, 1.0, 1.0))
    ledger.state.config = config(*SMALL, "design.memory_seeds=0")
    first = lease(ledger)
    assert (first[0].seeds, first[0].avoid) == ((), None)
    ledger.state.config = config(*SMALL)
    ledger.tick(11.0, None)
    second = lease(ledger, now=11.0)
    assert (second[0].id, second[0].avoid.environment) == (first[0].id, "m0")


def test_a_job_is_ended_by_its_holder_alone(ledger):
    (job,) = lease(ledger, holder="designer/1")
    before = msgspec.msgpack.encode(ledger.state.jobs[job.id])
    for request in (environment(job, 1), rejected(job, 1, last=True)):
        with pytest.raises(RefusalError, match=f"job {job.id}: its lease 1 is not held by designer/2"):
            ledger.apply(request, "designer/2", 1.0)
    ledger.apply(ReleaseDesign(job.id, job.lease), "designer/2", 1.0)
    assert msgspec.msgpack.encode(ledger.state.jobs[job.id]) == before
    ledger.apply(environment(job, 1), "designer/1", 1.0)
    assert job.id not in ledger.state.jobs


def test_setting_and_variant_are_kept_and_count_for_plays_slots_and_failed_jobs():
    ledger = started(config(*SMALL, "run.domain=tools"))
    first, second = lease(ledger, 2)
    asked = {"setting": "a bank", "variant": "execute"}
    ledger.apply(msgspec.structs.replace(environment(first, 1), **asked), "designer/1", 0.0)
    kept = ledger.state.environments["e000000"]
    assert (kept.setting, kept.variant) == ("a bank", "execute")
    play_out(ledger, (0.0, 1.0))
    failed = msgspec.structs.replace(rejected(second, 1, last=True), setting="a desk", variant="irrelevant")
    ledger.apply(failed, "designer/1", 2.0)
    (reject,) = [record for table, _, record in ledger.state.changes() if table == "rejects"]
    assert (reject.setting, reject.variant) == ("a desk", "irrelevant")
    figures = ledger.state.statistics.variants()
    assert (figures["execute"].win_rate_unhinted, figures["execute"].learnable_share) == (0.5, 1.0)
    assert (figures["irrelevant"].win_rate_unhinted, figures["irrelevant"].learnable_share) == (None, 0.0)
