"""The switches that leave out a part of a run, and what then is not in the ledger."""

import msgspec
import pytest

from replay.inspect.contents import read_contents
from replay.inspect.lineage import Tracer
from replay.inspect.verify import find_problems
from replay.ledger.records import DesignGroup, Environment, MemoryEntry, PlayRecord, RunCounters
from replay.service.status import PeersView, build_status, make_metrics_row
from replay.store import open_reader
from spade.protocol import LeaseAudit, LeasePlays, SubmitPlays, Traffic, Trajectory
from tests.replay.kept_world import ACCIDENTS, keep_world
from tests.replay.replay_world import audited, config, ended, environment, leased_job, rejected, started

# One slot and one skill; windows of one chunk of 4 plays.
ONE = (
    "design.active_environments=1", "design.round_jobs=2", "design.active_skills=1", "play.group_size=4",
    "play.window_chunks=1", "learner.batch_sequences=4", "learner.agent_lag=8",
)  # fmt: skip
SMALL = ("learner.batch_sequences=24", "play.lease_s=10", "design.lease_s=20", "audit.replays=1")
UNHINTED = ("reward.kind=learning_potential", "reward.kind=win_rate")


def begin(*overrides):
    return started(config(*ONE, *overrides))


def design(ledger, hint="pull the second lever"):
    """Hand in an environment for the next job; returns the job."""
    job = leased_job(ledger)
    ledger.apply(msgspec.structs.replace(environment(job, 1), hint=hint), "designer/1", 0.0)
    ledger.advance(0.0)
    return job


def play(ledger, *won):
    """Play all of a window; the instances of the numbers in `won` are won. Returns the plays."""
    leases = ledger.apply(LeasePlays(100, 0.0), "agent/1", 0.0).plays
    ledger.apply(SubmitPlays(tuple(ended(p, float(int(p.id[-3:]) in won), 1) for p in leases)), "agent/1", 0.0)
    ledger.advance(0.0)
    return leases


def written(ledger, table):
    """The records of a table that are to be written, in order."""
    return [record for name, _, record in ledger.state.changes() if name == table]


def live(folder, *overrides):
    """A run with accidents in a store, which is sound."""
    world = keep_world(folder, 3, 60.0, config(*SMALL, *overrides), ACCIDENTS)
    assert world.batches
    with open_reader(folder) as store:
        assert find_problems(read_contents(store)) == []
    return world


# ---------------------------------------------------------------- no hinted arm


@pytest.mark.parametrize("kind", UNHINTED)
def test_no_reward_but_regret_has_anything_played_with_a_hint(kind):
    ledger = begin(kind, "audit.replays=1", "audit.random_plays=0")
    design(ledger)
    plays = play(ledger, 0, 1)
    assert [p.hinted for p in plays] == [False] * 4
    (job,) = ledger.apply(LeaseAudit(0.0), "env-runner/1", 0.0).jobs
    assert [replay.play in {p.id for p in plays} for replay in job.replays] == [True], "one recording, of the one arm"
    ledger.apply(audited(job), "env-runner/1", 0.0)
    (closed,) = written(ledger, "environments")
    assert (closed.score.regret, closed.score.regret_error, closed.score.win_rate_hinted) == (None, None, None)
    assert (closed.score.win_rate, closed.score.plays) == (0.5, 4)
    assert [record.regret for record in ledger.state.memory] == [None]


@pytest.mark.parametrize("kind", UNHINTED)
def test_the_hinted_arm_is_a_diagnostic_where_it_is_asked_for(kind):
    ledger = begin(kind, "play.hinted=true")
    design(ledger)
    assert sorted(p.hinted for p in play(ledger, 0, 1)) == [False] * 4 + [True] * 4
    (closed,) = written(ledger, "environments")
    assert (closed.score.regret, closed.score.win_rate_hinted) == (0.0, 0.5)
    assert closed.score.reward == (None if "potential" in kind else 1.0)


def test_a_program_without_a_hint_is_played_unhinted_whatever_the_reward():
    ledger = begin()
    design(ledger, hint="")
    assert [p.hinted for p in play(ledger, 0, 1)] == [False] * 4
    (closed,) = written(ledger, "environments")
    assert (closed.score.regret, closed.score.reward) == (None, pytest.approx(0.6))


def test_without_hinted_plays_regret_is_unknown_wherever_it_is_told_and_not_0(tmp_path):
    world = live(tmp_path, "reward.kind=learning_potential")
    seen = PeersView("a run", world.now, Traffic(), frozenset(), (), {}, ())
    told = build_status(world.ledger, seen)
    row = make_metrics_row(told)
    assert (row["regret"], row["regret_error"], row["win_rate_hinted"]) == (None, None, None)
    assert told.histories.regret_history == ()
    assert {hinted for _, hinted in told.histories.win_rate_history} == {None}
    assert row["return_gap"].keys() <= set(world.ledger.state.config.run.skills)
    assert max(row["return_gap"].values()) > 0
    with open_reader(tmp_path) as store:
        assert not any(p.hinted for p in store.scan("plays", PlayRecord))
        environments = [e for e in store.scan("environments", Environment) if e.score]
        assert environments
        assert {e.score.regret for e in environments} == {None}
        assert {record.regret for record in store.scan("memory", MemoryEntry)} == {None}
        traced = [line.environment.score for e in environments for line in Tracer(store).trace(e.id).designs]
    assert {score.regret for score in traced} == {None}
    assert any(score.reward for score in traced)


def test_designers_are_shown_what_paid_most_where_there_is_no_regret():
    ledger = begin("reward.kind=win_rate")
    design(ledger)
    play(ledger, 0, 1)
    job = leased_job(ledger)
    assert [(seed.environment, seed.regret, seed.win_rate) for seed in job.seeds] == [("e000000", None, 0.5)]


def test_designers_are_shown_what_paid_most_if_a_regret_may_pay_nothing():
    """The hint made no difference, so that nothing would be shown by regret."""
    shown = {}
    for kind in ("regret", "finding"):
        ledger = begin(f"reward.kind={kind}")
        design(ledger)
        play(ledger, 0, 1)
        shown[kind] = [(seed.environment, seed.regret, seed.win_rate) for seed in leased_job(ledger).seeds]
    assert shown == {"regret": [], "finding": [("e000000", 0.0, 0.5)]}


@pytest.mark.parametrize("kind", ["progress", "finding"])
def test_a_run_paid_for_what_can_be_learned_plays_both_arms_and_is_sound(tmp_path, kind):
    world = live(tmp_path, f"reward.kind={kind}")
    with open_reader(tmp_path) as store:
        scores = [each.score for each in store.scan("environments", Environment) if each.score]
        assert any(play.hinted for play in store.scan("plays", PlayRecord))
    assert len({score.reward for score in scores}) > 2
    assert world.ledger.state.config.reward.kind == kind


# ---------------------------------------------------------------- learning potential


def test_learning_potential_is_the_distance_from_the_slow_average_of_the_skill():
    ledger = begin("reward.kind=learning_potential", "reward.slow=0.25", "run.skills=['optimization']")
    scores = []
    for won in ((0, 1, 2, 3), (), (0, 1), (0, 1, 2, 3)):
        design(ledger)
        play(ledger, *won)
        (closed,) = [each for each in written(ledger, "environments") if each.score]
        scores.append(closed.score)
    assert [score.slow for score in scores] == [None, 1.0, 0.75, 0.6875]
    assert [score.reward for score in scores] == [None, 1.0, 0.25, 0.3125]
    assert [score.order for score in scores] == [0, 1, 2, 3]
    # The first one's is unknown, so its design is no member; of two rewards the group has the mean taken off.
    groups = [group for group in ledger.state.queue.values() if group.role == "designer"]
    assert [[member.reward for member in group.members] for group in groups] == [[1.0], [0.25, 0.3125]]


def test_a_quarantined_window_is_paid_nothing_and_moves_no_average():
    ledger = begin("reward.kind=learning_potential", "audit.replays=1", "run.skills=['optimization']")
    for finding in ("", "the same actions came out otherwise", ""):
        design(ledger)
        play(ledger, *(() if finding else (0, 1, 2, 3)))
        (job,) = ledger.apply(LeaseAudit(0.0), "env-runner/1", 0.0).jobs
        ledger.apply(audited(job, finding), "env-runner/1", 0.0)
        ledger.advance(0.0)
    closed = [each.score for each in written(ledger, "environments") if each.score]
    assert [(score.reward, score.order) for score in closed] == [(None, 0), (0.0, None), (0.0, 1)]
    assert ledger.state.counters.averages["optimization"].slow == 1.0


# ---------------------------------------------------------------- no designer training


def test_designs_that_are_not_trained_take_no_place_and_count_nowhere_but_are_kept(tmp_path):
    world = live(tmp_path, "design.train=false")
    assert {group.role for batch in world.batches for group in batch.groups} == {"agent"}
    assert "designer" not in {group.role for group in world.ledger.state.queue.values()}
    with open_reader(tmp_path) as store:
        counters = store.get("meta", "counters", RunCounters)
        closed = [e for e in store.scan("environments", Environment) if e.score]
        designs = store.get_many("trajectories", [e.job for e in closed], Trajectory)
        groups = store.scan("design_groups", DesignGroup)
    assert (counters.designer_trainable, counters.designer_trained, counters.designer_wasted) == (0, 0, 0)
    assert counters.trainable > 0
    assert counters.failed_jobs > 0
    assert any(e.score.reward for e in closed)
    assert len(designs) == len(closed) > 0
    assert all(design.sampled for design in designs)
    assert any(group.closed == group.jobs for group in groups)
    assert not any(group.members for group in groups)


def test_a_resume_that_trains_designs_again_begins_with_the_next_group():
    ledger = begin("design.train=false")
    first = design(ledger)
    ledger.state.config = config(*ONE)
    play(ledger, 0, 1)
    for _ in range(2):  # the other one of this round, and the first of the next
        job = leased_job(ledger)
        ledger.apply(rejected(job, 1, last=True), "designer/1", 0.0)
        ledger.advance(0.0)
    assert first.round == 0
    groups = ledger.state.design_groups
    assert [(group.round, group.train, len(group.members)) for group in groups.values()] == [(1, True, 1)]
    assert ledger.state.counters.designer_trainable == 1


# ---------------------------------------------------------------- no memory, and fewer skills


def test_without_memory_jobs_show_nothing_and_the_memory_is_kept_all_the_same(tmp_path):
    live(tmp_path, "design.memory_seeds=0")
    with open_reader(tmp_path) as store:
        contents = read_contents(store)
    assert len(contents.memory) > 3
    assert not any(job.seeds or any(job.earlier) for job in contents.jobs.values())
    assert not any(reject.shown for reject in contents.rejects.values())
    assert not any(environment.parents for environment in contents.environments.values())
    ledger = begin("design.memory_seeds=0", "run.skills=['optimization']")
    design(ledger)
    play(ledger)
    job = leased_job(ledger)
    assert [record.win_rate for record in ledger.state.memory] == [0.0]
    assert (job.seeds, job.avoid) == ((), None)
    assert begin("run.skills=['optimization']").state.config.design.memory_seeds > 0


def test_neither_memory_nor_designer_training(tmp_path):
    world = live(tmp_path, "design.memory_seeds=0", "design.train=false")
    assert {group.role for batch in world.batches for group in batch.groups} == {"agent"}
    with open_reader(tmp_path) as store:
        contents = read_contents(store)
    assert not any(job.seeds for job in contents.jobs.values())
    assert not any(group.members for group in contents.design_groups.values())
    assert contents.memory


def test_two_skills_are_all_that_jobs_groups_and_averages_know(tmp_path):
    two = {"optimization", "logical deduction"}
    live(tmp_path, f"run.skills={sorted(two)}", "design.active_skills=2", "reward.kind=learning_potential")
    with open_reader(tmp_path) as store:
        contents = read_contents(store)
    assert {job.skill for job in contents.jobs.values()} == two
    assert {group.skill for group in contents.design_groups.values()} == two
    assert {record.skill for record in contents.memory.values()} == two
    assert contents.counters.averages.keys() == two
    rounds = {job.round for job in contents.jobs.values()}
    for round_ in list(rounds)[:-1]:
        skills = [job.skill for job in contents.jobs.values() if job.round == round_]
        assert [skills.count(skill) for skill in sorted(two)] == [6, 6]
