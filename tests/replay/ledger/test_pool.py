"""A ledger whose environments come from a pool."""

import msgspec
import pytest

from replay.ledger.batches import RefusalError
from replay.ledger.ledger import Ledger
from replay.ledger.state import RunState
from replay.service.status import describe_waiting
from replay.service.why import explain_no_job
from spade.codec import compute_program_digest
from spade.pools import Draws, Entry, PoolList
from spade.protocol import LeaseAudit, LeaseDesigns, LeasePlays, RejectCandidate, SubmitEnvironment
from tests.peers import changed
from tests.replay.replay_world import SECRET, audited, config, played, started, trajectory

SETTINGS = config(
    "design.active_environments=4", "design.round_jobs=4", "design.active_skills=2", "play.window_chunks=1",
    "play.group_size=2", "learner.batch_sequences=900", "design.source=pool", "pool.source=folder:somewhere",
    "design.round_deadline_s=100", "play.window_deadline_s=50", "audit.replays=2",
)  # fmt: skip


def source(name):
    return f"class {name}Env: ..."


def pool(size, skill=""):
    return PoolList(tuple(Entry(f"p{i}", compute_program_digest(source(f"p{i}")), skill=skill) for i in range(size)))


def ledger_of(size, skill=""):
    state = RunState(SETTINGS, SECRET)
    state.take_pool(pool(size, skill), None)
    return started(state)


def lease(ledger, count=4, now=0.0):
    answer = ledger.apply(LeaseDesigns(count, 0.0, ledger.state.pool.digest), "curator/1", now)
    return answer.jobs if answer else ()


def brought(job, **fields):
    submitted = SubmitEnvironment(
        job=job.id, lease=job.lease, attempt=1, document=job.program, name="TideEnv", source=source(job.program),
        hint="wait", seed_sensitive=True, first_observation="Low tide.", trajectory=None,
    )  # fmt: skip
    return msgspec.structs.replace(submitted, **fields)


def bring(ledger, jobs, now=0.0):
    for job in jobs:
        ledger.apply(brought(job), "curator/1", now)
    ledger.advance(now)


def fails(job):
    return RejectCandidate(job.id, job.lease, 1, job.program, source(job.program), "parse", "no", None, True)


def play_out(ledger, now):
    """Play all that is open, every other play won."""
    answer = ledger.apply(LeasePlays(100, 0.0), "agent/1", now)
    for number, play in enumerate(answer.plays if answer else ()):
        assert play.hint is None
        ledger.apply(played(play, float(number % 2), 1), "agent/1", now)
    for _ in range(9):
        audits = ledger.apply(LeaseAudit(0.0), "env-runner/1", now)
        for job in audits.jobs if audits else ():
            ledger.apply(audited(job), "env-runner/1", now)
    ledger.advance(now)


def test_jobs_name_their_programs_which_are_played_unhinted_and_train_the_agent_alone():
    ledger = ledger_of(6)
    jobs = lease(ledger)
    assert len({job.program for job in jobs}) == 4
    assert all(job.digest == compute_program_digest(source(job.program)) for job in jobs)
    bring(ledger, jobs)
    assert {play.hinted for play in ledger.state.plays.values()} == {False}
    play_out(ledger, 1.0)
    state = ledger.state
    assert {group.role for group in state.queue.values()} == {"agent"}
    assert state.design_groups == {}
    assert state.counters.trainable == sum(len(group.members) for group in state.queue.values())
    remembered = list(state.memory)
    assert len(remembered) == 4
    assert {(each.regret, each.win_rate_hinted) for each in remembered} == {(None, None)}


def test_a_program_with_a_hint_is_played_with_it_where_that_is_asked_for():
    state = RunState(changed(SETTINGS, play={"hinted": True}), SECRET)
    state.take_pool(pool(4), None)
    ledger = started(state)
    first, *others = lease(ledger)
    ledger.apply(brought(first, hint=""), "curator/1", 0.0)
    bring(ledger, others)
    arms = {environment.program: set() for environment in state.environments.values()}
    for play in state.plays.values():
        arms[state.environments[play.environment].program].add(play.hinted)
    assert arms == {first.program: {False}, **{job.program: {False, True} for job in others}}
    for play in ledger.apply(LeasePlays(100, 0.0), "agent/1", 1.0).plays:
        ledger.apply(played(play, float(play.hint is not None), 1), "agent/1", 1.0)
    while audits := ledger.apply(LeaseAudit(0.0), "env-runner/1", 1.0):
        ledger.apply(audited(audits.jobs[0]), "env-runner/1", 1.0)
    assert sorted(each.regret is None for each in state.memory) == [False, False, False, True]


@pytest.mark.parametrize("skill", ["optimization", ""])
def test_a_program_has_its_own_skill_or_its_jobs(skill):
    ledger = ledger_of(6, skill)
    jobs = lease(ledger)
    asked = ["mathematical reasoning"] * 2 + ["logical deduction"] * 2
    assert [job.skill for job in jobs] == ([skill] * 4 if skill else asked)
    bring(ledger, jobs)
    assert [each.skill for each in ledger.state.environments.values()] == [job.skill for job in jobs]
    play_out(ledger, 1.0)
    assert not ledger.state.environments


def test_a_small_pool_leaves_slots_empty_and_says_so():
    ledger = ledger_of(3)
    jobs = lease(ledger)
    assert len(jobs) == 3
    bring(ledger, jobs)
    assert lease(ledger) == ()
    told = "each of the 3 programs of the pool is played once at a time"
    assert explain_no_job(ledger) == f"3 of 4 slots have an environment; {told}"
    roles = frozenset({"learner", "engine", "curator", "env-runner", "agent"})
    assert describe_waiting(ledger.state, roles).endswith(f"; 1 slots are empty: {told}")
    assert describe_waiting(ledger.state, roles - {"curator"}) == "waiting for a curator to connect"
    play_out(ledger, 1.0)
    assert {job.program for job in lease(ledger)} == {"p0", "p1", "p2"}


def test_a_rejected_program_is_kept_and_its_slot_goes_to_the_next():
    ledger = ledger_of(5)
    first, *others = lease(ledger)
    bring(ledger, others)
    ledger.apply(fails(first), "curator/1", 0.0)
    ledger.advance(0.0)
    (following,) = lease(ledger)
    assert following.program not in {job.program for job in (first, *others)}
    assert ledger.state.counters.rejected_candidates == ledger.state.counters.failed_jobs == 1
    bring(ledger, [following])
    drawn = set()
    for now in range(1, 5):
        play_out(ledger, float(now))
        jobs = lease(ledger, now=float(now))
        drawn |= {job.program for job in jobs}
        bring(ledger, jobs, float(now))
    assert drawn == {"p0", "p1", "p2", "p3", "p4"} - {first.program}


def test_a_pool_of_which_all_were_rejected_asks_for_nothing():
    ledger = ledger_of(2)
    for job in lease(ledger):
        ledger.apply(fails(job), "curator/1", 0.0)
    ledger.tick(1.0, None)
    assert lease(ledger, now=1.0) == ()
    assert ledger.state.jobs == {}
    assert "all 2 programs of the pool were rejected" in explain_no_job(ledger)


def test_work_that_is_not_of_the_pool_is_refused():
    ledger = ledger_of(4)
    job = lease(ledger)[0]
    for wrong, why in (
        (brought(job, source="class OtherEnv: ..."), f"this is not the program {job.program} of the pool"),
        (brought(job, trajectory=trajectory(1)), "a program of a pool must have none"),
        (msgspec.structs.replace(fails(job), trajectory=trajectory(1)), "a program of a pool must have none"),
    ):
        with pytest.raises(RefusalError, match=why):
            ledger.apply(wrong, "curator/1", 0.0)
    for digest, why in (("", "start curators"), ("0" * 32, "your pool is 000000000000, the run's is")):
        with pytest.raises(RefusalError, match=why):
            ledger.apply(LeaseDesigns(1, 0.0, digest), "curator/2", 0.0)
    designed = started(config())
    with pytest.raises(RefusalError, match="start designers"):
        designed.apply(LeaseDesigns(1, 0.0, "0" * 32), "curator/1", 0.0)
    (job,) = designed.apply(LeaseDesigns(1, 0.0), "designer/1", 0.0).jobs
    with pytest.raises(RefusalError, match="must have a trajectory"):
        designed.apply(brought(job), "designer/1", 0.0)


def test_an_audit_of_a_pool_program_ends_at_the_deadline_of_a_round():
    ledger = ledger_of(4)
    bring(ledger, lease(ledger))
    for play in ledger.apply(LeasePlays(100, 0.0), "agent/1", 1.0).plays:
        ledger.apply(played(play, 1.0, 1), "agent/1", 1.0)
    ledger.tick(99.0, None)
    assert len(ledger.state.audits) == 4
    ledger.tick(100.0, None)
    assert not ledger.state.environments
    assert ledger.state.counters.audits_left_out == 4


def test_a_lease_that_is_lost_asks_for_the_same_program_under_the_same_seed():
    ledger = ledger_of(6)
    first = lease(ledger)
    ledger.tick(0.0, frozenset())
    again = lease(ledger)
    assert [(job.program, job.sampler, job.lease) for job in again] == [(j.program, j.sampler, 2) for j in first]


def test_the_order_is_of_the_run_and_goes_on_from_what_was_committed():
    """Every request is followed by a kill: the state is that of the last commit."""
    undisturbed, killed = ledger_of(7), ledger_of(7)
    orders = ([], [])
    for now in range(12):
        for ledger, order in zip((undisturbed, killed), orders, strict=True):
            jobs = lease(ledger, now=float(now))
            order += [job.program for job in jobs]
            bring(ledger, jobs, float(now))
            play_out(ledger, float(now))
        state = killed.state
        draws = msgspec.msgpack.decode(msgspec.msgpack.encode(state.pool.draws), type=Draws)
        state.take_pool(pool(7), draws)
        killed = Ledger(state)
    assert orders[0] == orders[1]
    assert len(orders[0]) > 28
