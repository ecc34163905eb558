"""Audits in the ledger: what is kept for them, what they are given, and what their outcome does to a window."""

import msgspec
import pytest

from replay.inspect.contents import read_contents
from replay.inspect.verify import find_problems
from replay.ledger.batches import RefusalError
from replay.store import open_reader
from replay.store.load import load
from spade.protocol import DIGEST_BYTES, LeaseAudit, LeasePlays, Recording, SubmitPlays, UnaidedInstance
from tests.replay.kept_world import SETTINGS
from tests.replay.replay_world import SECRET, audited, config, ended, environment, leased_job, started, void

# One slot; a window of one chunk of 4 plays; one recorded play of each arm and 8 random ones.
ONE = (
    "design.active_environments=1", "design.round_jobs=1", "design.active_skills=1", "play.group_size=4",
    "play.window_chunks=1", "learner.batch_sequences=4", "play.lease_s=10", "play.window_deadline_s=100",
    "design.round_deadline_s=200", "audit.replays=1", "audit.random_plays=8",
)  # fmt: skip


def begin(*overrides, reads="inside"):
    ledger = started(config(*ONE, *overrides))
    ledger.apply(msgspec.structs.replace(environment(leased_job(ledger), 1), reads=reads), "designer/1", 0.0)
    return ledger


def play(ledger, won, now=0.0):
    """Play all of the window; the instances in `won` are won in both arms."""
    leases = ledger.apply(LeasePlays(100, 0.0), "agent/1", now).plays
    ledger.apply(SubmitPlays(tuple(ended(p, float(int(p.id[-3:]) in won), 1) for p in leases)), "agent/1", now)
    ledger.advance(now)
    return leases


def lease(ledger, holder="env-runner/1", now=0.0, number=0):
    answer = ledger.apply(LeaseAudit(0.0), holder, now, number)
    return None if answer is None else answer.jobs[0]


def record(ledger):
    """The environment as it is written now."""
    (found,) = [r for table, key, r in ledger.state.changes() if (table, key) == ("environments", "e000000")]
    return found


@pytest.fixture
def ledger():
    return begin()


def test_an_audit_is_told_the_form_of_an_action():
    ledger = begin(reads="box")
    play(ledger, {0, 1})
    assert lease(ledger).reads == "box"


def test_a_designer_is_not_paid_before_the_audit_is_over(ledger):
    play(ledger, {0, 1})
    assert list(ledger.state.environments) == ["e000000"]
    assert record(ledger).score is None
    ledger.apply(audited(lease(ledger)), "env-runner/1", 1.0)
    found = record(ledger)
    assert (found.state, found.audit.state, found.score.reward) == ("closed", "passed", 0.6)
    assert not ledger.state.environments
    assert len(ledger.state.memory) == 1


def test_a_finding_quarantines_the_environment_with_its_reason_and_pays_nothing(ledger):
    play(ledger, {0, 1})
    queued = list(ledger.state.queue.values())
    job = lease(ledger)
    with pytest.raises(RefusalError, match="its lease 1 is not held by env-runner/2"):
        ledger.apply(audited(job, "made up"), "env-runner/2", 1.0)
    ledger.apply(audited(job, "answered turn 2 otherwise"), "env-runner/1", 1.0)
    found = record(ledger)
    assert (found.state, found.audit.state, found.score.reward) == ("quarantined", "failed", 0.0)
    assert found.audit.finding == "answered turn 2 otherwise"
    assert len(ledger.state.memory) == 0
    # The agent really did what it is trained on; its designer is trained on a reward of nothing.
    agent, designer = ledger.state.queue.values()
    assert [agent] == queued
    assert [member.reward for member in designer.members] == [0.0]
    counters = ledger.state.counters
    assert (counters.audits, counters.audit_findings, counters.audits_left_out) == (1, 1, 0)
    assert counters.newest_finding == "e000000: answered turn 2 otherwise"
    assert (counters.audit_steps, counters.audit_s) == (30, 0.25)


def test_an_audit_is_given_recorded_plays_of_both_arms_and_the_instances_that_were_won(ledger):
    leases = play(ledger, {1, 3})
    job = lease(ledger)
    assert (job.environment, job.source, job.wins) == ("e000000", "class LampEnv: ...", 8)
    by_id = {each.id: each for each in leases}
    assert sorted(by_id[each.play].hinted for each in job.replays) == [False, True]
    for each in job.replays:
        assert each.seed == by_id[each.play].seed
        assert each.recording.actions == (each.play, "pull")
    won = {each.seed for each in leases if int(each.id[-3:]) in (1, 3)}
    assert len(job.seeds) == 8
    assert {job.seeds.count(seed) for seed in won} == {4}


def test_an_audit_is_given_the_hint_and_instances_that_nobody_won(ledger):
    leases = play(ledger, {1, 3})
    job = lease(ledger)
    assert job.hint == "pull the second lever"
    assert [each.hinted for each in job.replays] == [each.play[-4] == "h" for each in job.replays]
    assert sorted(job.lost) == sorted({each.seed for each in leases if int(each.id[-3:]) in (0, 2)})
    ledger = begin("audit.solutions=1")
    play(ledger, {1, 3})
    assert len(lease(ledger).lost) == 1


def test_an_instance_that_one_arm_won_is_not_lost(ledger):
    leases = ledger.apply(LeasePlays(100, 0.0), "agent/1", 0.0).plays
    # The hinted plays win all instances but the last, the others win none but the first.
    won = {each.id for each in leases if (each.hint and each.id[-1] != "3") or each.id[-1] == "0"}
    ledger.apply(SubmitPlays(tuple(ended(p, float(p.id in won), 1) for p in leases)), "agent/1", 0.0)
    job = lease(ledger)
    assert job.lost == tuple({each.seed for each in leases if each.id[-1] == "3"})
    unaided = {UnaidedInstance(each.seed, 0.0) for each in leases if each.id[-1] != "0"}
    assert (set(job.unaided), len(job.unaided)) == (unaided, 3)


def test_instances_without_an_unhinted_win_are_tried_with_their_best_unhinted_return_although_nothing_was_won(ledger):
    leases = ledger.apply(LeasePlays(100, 0.0), "agent/1", 0.0).plays
    ledger.apply(SubmitPlays(tuple(ended(p, 0.9 if p.hint else 0.5, 1) for p in leases)), "agent/1", 0.0)
    job = lease(ledger)
    assert set(job.unaided) == {UnaidedInstance(each.seed, 0.5) for each in leases}
    assert (job.lost, job.seeds) == ((), ())


@pytest.mark.parametrize(("won", "setting"), [((), "audit.solutions=4"), ((0, 1), "audit.solutions=0")])
def test_no_solution_is_played_without_a_win_or_where_none_is_configured(won, setting):
    ledger = begin(setting)
    play(ledger, set(won))
    assert lease(ledger).lost == ()


def test_losses_that_the_solution_cannot_avoid_take_the_anchor_away(ledger):
    play(ledger, {0, 1})
    ledger.apply(msgspec.structs.replace(audited(lease(ledger)), tried=2, solved=0), "env-runner/1", 1.0)
    found = record(ledger)
    assert (found.audit.state, found.audit.finding) == ("passed", "its solution won 0 of 2 instances that nobody won")
    assert ledger.state.counters.audit_findings == 0
    assert (found.score.luck, found.score.reward, found.score.learnable) == (2, 0.0, False)
    assert found.score.win_rate == 0.5  # as it was played


def test_a_solution_that_won_more_than_it_played_is_refused(ledger):
    play(ledger, {0, 1})
    with pytest.raises(RefusalError, match="won more plays"):
        ledger.apply(msgspec.structs.replace(audited(lease(ledger)), tried=1, solved=2), "env-runner/1", 1.0)


def test_a_win_that_misses_one_by_rounding_is_audited_too(ledger):
    leases = ledger.apply(LeasePlays(100, 0.0), "agent/1", 0.0).plays
    ledger.apply(SubmitPlays(tuple(ended(p, sum([0.1] * 10), 1) for p in leases)), "agent/1", 0.0)
    assert len(lease(ledger).seeds) == 8


def test_only_recordings_to_audit_are_kept_and_none_once_the_window_is_closed():
    ledger = begin("play.group_size=8", "learner.batch_sequences=8")
    play(ledger, {0})
    assert len(ledger.state.recordings["e000000"]) == 2
    kept = {key for table, key, r in ledger.state.changes() if table == "recordings" and r is not None}
    assert kept == set(ledger.state.recordings["e000000"])
    ledger.apply(audited(lease(ledger)), "env-runner/1", 1.0)
    assert not ledger.state.recordings
    deleted = {key for table, key, r in ledger.state.changes() if table == "recordings" and r is None}
    assert deleted == kept


def test_a_window_without_a_win_plays_nothing_at_random(ledger):
    play(ledger, set())
    job = lease(ledger)
    assert (len(job.replays), job.seeds) == (2, ())


def test_no_audit_is_made_where_none_is_configured():
    ledger = begin("audit.replays=0", "audit.random_plays=0")
    play(ledger, {0})
    assert not ledger.state.environments
    assert record(ledger).audit is None


def test_too_many_voids_need_no_audit(ledger):
    for each in ledger.apply(LeasePlays(100, 0.0), "agent/1", 0.0).plays[:3]:
        ledger.apply(SubmitPlays((void(each).plays[0],)), "agent/1", 0.0)
    found = record(ledger)
    assert (found.state, found.audit) == ("quarantined", None)


def test_an_audit_of_a_holder_that_is_gone_is_leased_again_twice_and_then_left_out_and_not_paid(ledger):
    play(ledger, {0, 1})
    for number in (1, 2, 3):
        assert lease(ledger, f"env-runner/{number}").lease == number
        assert lease(ledger) is None
        ledger.tick(1.0, frozenset())
    found = record(ledger)
    assert (found.state, found.audit.state, found.score.reward) == ("closed", "left out", None)
    assert found.audit.finding == "it gave no result under 3 leases"
    assert ledger.state.counters.audits_left_out == 1


def test_a_window_whose_audit_nobody_took_up_by_the_deadline_of_its_round_is_not_paid(ledger):
    """Otherwise the audits of programs that sleep could keep the env-runners from the audit of another."""
    play(ledger, {0, 1})
    ledger.tick(199.0, None)
    assert ledger.state.environments
    ledger.tick(200.0, None)
    found = record(ledger)
    assert (found.state, found.audit.state, found.score.reward) == ("closed", "left out", None)
    assert found.audit.finding == "it was not over at the deadline of its round"
    assert not [group for group in ledger.state.queue.values() if group.role == "designer"]
    assert ledger.state.counters.audits_left_out == 1


def test_a_window_whose_audit_lasts_over_the_deadline_of_its_round_is_not_paid(ledger):
    """Otherwise a program could avoid its audit by being slow."""
    play(ledger, {0, 1})
    job = lease(ledger, now=199.0)
    ledger.tick(200.0, None)
    found = record(ledger)
    assert (found.state, found.audit.state, found.score.reward) == ("closed", "left out", None)
    assert len(ledger.state.memory) == 0
    ledger.apply(audited(job, "too late"), "env-runner/1", 201.0)
    assert (ledger.state.counters.audits_left_out, ledger.state.counters.audit_findings) == (1, 0)


def test_a_window_that_ends_at_its_deadline_is_audited_and_opens_no_further_chunk():
    ledger = begin("play.window_chunks=2", "play.chunk_wait_s=1")
    leases = play(ledger, {0, 1})
    assert leases
    ledger.tick(100.0, None)
    job = lease(ledger, now=100.0)
    ledger.tick(150.0, None)
    assert ledger.apply(LeasePlays(1, 0.0), "agent/1", 150.0) is None
    ledger.apply(audited(job), "env-runner/1", 150.0)
    assert not ledger.state.environments


@pytest.mark.parametrize(
    "ran",
    [{"replays": 0, "plays": 0}, {"replays": 1, "left_out": 1}, {"cut_off": True}, {"undecided": 1}],
    ids=["none", "half", "without the last checks", "without a check of the hint"],
)
def test_an_audit_without_a_result_is_marked_and_not_paid(ledger, ran):
    play(ledger, {0, 1})
    ledger.apply(msgspec.structs.replace(audited(lease(ledger)), **ran), "env-runner/1", 1.0)
    found = record(ledger)
    assert (found.state, found.audit.state, found.score.reward) == ("closed", "left out", None)
    assert len(ledger.state.memory) == 0


def test_the_outcome_of_an_audit_is_taken_once_and_of_a_lease_that_was_given(ledger):
    play(ledger, {0, 1})
    job = lease(ledger)
    for made_up in (0, 2, -1):
        ledger.apply(msgspec.structs.replace(audited(job, "made up"), lease=made_up), "env-runner/1", 1.0)
    assert ledger.state.counters.audits == 0
    with pytest.raises(RefusalError, match="seconds must be finite"):
        ledger.apply(msgspec.structs.replace(audited(job), seconds=float("nan")), "env-runner/1", 1.0)
    for _ in range(2):
        ledger.apply(audited(job), "env-runner/1", 1.0)
    assert ledger.state.counters.audits == 1


def test_a_request_that_is_sent_again_is_given_the_audit_it_has(ledger):
    play(ledger, {0, 1})
    first = lease(ledger, number=7)
    assert first is not None
    assert lease(ledger, number=7) == first
    assert lease(ledger, number=8) is None


def test_an_audit_goes_on_after_a_restart_and_verify_finds_nothing_amiss(untouched):
    with open_reader(untouched) as store:
        found = read_contents(store)
        state = load(store, SETTINGS, SECRET)
    assert find_problems(found) == []
    assert found.counters.audits > 3
    assert found.counters.audit_findings > 0
    assert found.recordings
    assert {id: dict(kept) for id, kept in state.recordings.items()} == {
        id: {key: each for key, each in found.recordings.items() if key.startswith(id)} for id in state.recordings
    }


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda found: found.recordings.update({"e999999-0u000": Recording((), bytes(DIGEST_BYTES), 8)}), "belongs to"),
        (lambda found: setattr(found.counters, "audit_findings", 0), "were counted"),
        (lambda found: setattr(failed(found), "state", "closed"), "after an audit that failed"),
    ],
    ids=["recording", "counter", "state"],
)
def test_verify_names_audits_that_do_not_fit(untouched, damage, says):
    with open_reader(untouched) as store:
        found = read_contents(store)
    damage(found)
    assert any(says in line for line in find_problems(found))


def failed(found):
    return next(each for each in found.environments.values() if each.audit is not None and each.audit.state == "failed")


def test_a_recording_has_an_answer_more_than_actions():
    with pytest.raises(ValueError, match="do not fit"):
        Recording(("a",), bytes(DIGEST_BYTES), 8)
