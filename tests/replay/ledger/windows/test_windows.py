"""Windows: chunks, arms, seeds, voids, scoring and closing."""

import math

import pytest

from replay.ledger import windows
from replay.ledger.records import Member
from spade.codec import compute_program_digest
from spade.protocol import EndedPlay, LeasePlays, SubmitPlays, TakeBatch
from spade.seeds import derive
from tests.replay.ledger.windows.one_window import ONE, arm, begin, closed, finish, lease
from tests.replay.replay_world import SECRET, config, environment, leased_job, trajectory, void, weights


def test_chunk_zero_opens_in_both_arms_on_the_same_instances(ledger):
    plays = lease(ledger)
    assert [play.hinted for play in plays] == [False] * 4 + [True] * 4
    unhinted, hinted = [[play.seed for play in arm(plays, h)] for h in (False, True)]
    assert unhinted == hinted == [derive(SECRET, "instance", "e000000", i) & 0x7FFFFFFF for i in range(4)]
    assert len(set(unhinted)) == 4
    assert len({play.sampler for play in plays}) == 8


def test_a_lease_has_the_hint_in_one_arm_alone_and_names_the_program_in_both(ledger):
    plays = lease(ledger)
    assert {play.hint for play in arm(plays, True)} == {"pull the second lever"}
    assert {play.hint for play in arm(plays, False)} == {None}
    assert {play.program for play in plays} == {compute_program_digest("class LampEnv: ...")}


def test_a_program_is_had_by_its_digest_until_the_last_environment_that_has_it_is_over():
    ledger = begin("design.active_environments=2")
    digest = compute_program_digest("class LampEnv: ...")
    assert ledger.state.program(digest) == "class LampEnv: ..."
    ledger.apply(environment(leased_job(ledger), 1), "designer/1", 0.0)
    first, second = ledger.state.environments.values()
    windows.close(ledger.state, first, 1.0)
    assert ledger.state.program(digest) == "class LampEnv: ..."
    windows.close(ledger.state, second, 1.0)
    assert ledger.state.program(digest) is None


def test_later_chunks_are_unhinted_and_on_other_instances(ledger):
    finish(ledger, lease(ledger), [1.0, 0.0] * 4)
    ledger.tick(19.9, None)
    assert lease(ledger, now=19.9) == ()
    ledger.tick(20.0, None)  # play.chunk_wait_s is over
    second = lease(ledger, now=20.0)
    assert [play.hinted for play in second] == [False] * 4
    assert [play.seed for play in second] == [
        derive(SECRET, "instance", "e000000", i) & 0x7FFFFFFF for i in range(4, 8)
    ]


def test_the_next_chunk_opens_on_newer_weights(ledger):
    finish(ledger, lease(ledger), [1.0, 0.0] * 4)
    ledger.apply(TakeBatch(1, 0.0), "learner", 1.0)
    ledger.advance(1.0)
    assert lease(ledger, now=1.0) == ()
    ledger.apply(weights(1), "learner", 2.0)
    ledger.advance(2.0)
    assert len(lease(ledger, now=2.0)) == 4


def test_weights_published_before_a_chunk_began_are_not_newer_for_the_next(ledger):
    """A chunk may stay closed for a while; what counts is what it was played with."""
    ledger.apply(weights(0, "later"), "learner", 0.5)
    ledger.advance(0.5)
    finish(ledger, lease(ledger, now=1.0), [1.0, 0.0] * 4, now=1.0, version=2)
    assert lease(ledger, now=1.0) == ()
    ledger.tick(21.0, None)
    assert len(lease(ledger, now=21.0)) == 4


def test_the_next_chunk_waits_for_its_first_to_be_scored(ledger):
    plays = lease(ledger)
    finish(ledger, plays[:3], [1.0, 0.0, 1.0])
    ledger.tick(50.0, None)
    assert [play.id for play in lease(ledger, now=50.0)] == [play.id for play in plays[3:]]


def test_a_starving_loop_does_not_wait_for_weights_that_cannot_come(ledger):
    """All returns are equal: no batch, so no weights, however long one waits."""
    finish(ledger, lease(ledger), [1.0] * 8)
    assert len(lease(ledger)) == 4


def test_the_window_closes_when_all_plays_are_terminal_and_frees_its_slot():
    ledger = begin("play.window_chunks=1")
    plays = lease(ledger)
    finish(ledger, arm(plays, False), [1.0, 0.0, 0.0, 1.0])
    assert ledger.state.environments
    finish(ledger, arm(plays, True), [1.0, 1.0, 0.0, 1.0])
    assert not ledger.state.environments
    assert len(ledger.state.jobs) == 1


def test_a_closed_window_is_scored_over_all_of_it_and_regret_over_chunk_zero(ledger):
    plays = lease(ledger)
    finish(ledger, arm(plays, False), [1.0, 0.0, 0.0, 0.0])
    finish(ledger, arm(plays, True), [1.0, 1.0, 1.0, 0.0])
    ledger.tick(20.0, None)
    finish(ledger, lease(ledger, now=20.0), [1.0, 1.0, 1.0, 0.0], now=20.0)
    record = closed(ledger)
    assert record.state == "closed"
    score = record.score
    assert (score.regret, score.win_rate, score.win_rate_hinted, score.learnable) == (0.5, 0.5, 0.75, True)
    # differences 0 1 1 0: s² = 1/3, error = sqrt(1/3/4)
    assert score.regret_error == pytest.approx(math.sqrt(1 / 12))
    assert score.reward == pytest.approx(1.0)
    assert record.levels == [0.0, 1.0]


def test_a_win_is_a_return_of_one_and_truncated_plays_return_nothing():
    ledger = begin("play.window_chunks=1")
    plays = lease(ledger)
    cut = SubmitPlays((EndedPlay(plays[0].id, 1, "truncated", 0.0, (0.25, 0.75), 0.5, trajectory(1)),))
    ledger.apply(cut, "agent/1", 0.0)
    finish(ledger, plays[1:], [0.75, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0])
    record = closed(ledger)
    assert record.score.win_rate == 0.25
    assert record.score.regret == pytest.approx(1 - 2.5 / 4)
    assert record.levels == [0.25, 0.75, 0.0, 1.0]


def test_a_return_that_misses_one_by_rounding_is_a_win_and_the_same_as_one():
    ledger = begin("play.window_chunks=1")
    finish(ledger, lease(ledger), [1.0, sum([0.1] * 10), 1.0, sum([0.1] * 10)] * 2)
    score = closed(ledger).score
    assert (score.win_rate, score.win_rate_hinted, score.regret) == (1.0, 1.0, pytest.approx(0.0))
    assert ledger.state.statistics.win_rate(hinted=False)[0] == 1.0
    assert not any(group.role == "agent" for group in ledger.state.queue.values())


def test_a_chunk_is_a_group_in_which_returns_differ(ledger):
    plays = lease(ledger)
    finish(ledger, arm(plays, True), [1.0, 0.0, 1.0, 0.0])
    assert not ledger.state.queue  # hinted plays are not trained
    finish(ledger, arm(plays, False), [1.0, 0.0, 0.5, 0.0])
    (group,) = ledger.state.queue.values()
    assert (group.id, group.role) == ("e000000-0", "agent")
    ids = [play.id for play in arm(plays, False)]
    assert group.members == tuple(Member(id, value, 1) for id, value in zip(ids, [1.0, 0.0, 0.5, 0.0], strict=True))


def test_a_chunk_without_variance_is_counted_and_not_trained(ledger):
    finish(ledger, lease(ledger), [0.0] * 8)
    assert ledger.state.counters.trainable == 0
    assert not ledger.state.queue
    assert ledger.state.statistics.zero_variance_share() == 1.0


def test_a_voids_pair_is_dropped_from_the_regret():
    ledger = begin("play.window_chunks=1")
    plays = lease(ledger)
    unhinted, hinted = arm(plays, False), arm(plays, True)
    ledger.apply(void(unhinted[0]), "agent/1", 0.0)
    finish(ledger, unhinted[1:], [0.0, 0.0, 1.0])
    finish(ledger, hinted, [1.0, 0.0, 1.0, 1.0])
    score = closed(ledger).score
    # Pairs 1 to 3: differences 0 1 0; the win rate is over the plays that finished.
    assert (score.regret, score.win_rate, score.voids) == (pytest.approx(1 / 3), pytest.approx(1 / 3), 1)


def test_too_many_voids_quarantine_the_environment_at_once(ledger):
    plays = lease(ledger)
    finish(ledger, plays[:2], [1.0, 0.0])
    for play in plays[2:4]:
        ledger.apply(void(play), "agent/1", 0.0)
    assert ledger.state.environments  # 2 of 8 are a quarter, not more
    ledger.apply(void(plays[4]), "agent/1", 0.0)
    assert not ledger.state.environments
    record = closed(ledger)
    assert (record.state, record.score.reward, record.score.learnable) == ("quarantined", 0.0, False)
    assert len(ledger.state.memory) == 0
    # What its plays in hand still bring is refused by nobody and counts for nothing.
    before = ledger.state.counters.plays
    finish(ledger, plays[5:], [1.0, 1.0, 1.0])
    assert (ledger.state.counters.plays, ledger.state.counters.late_plays) == (before, 3)


def test_at_its_deadline_a_window_closes_with_the_plays_it_has(ledger):
    plays = lease(ledger)
    finish(ledger, arm(plays, False)[:3] + arm(plays, True)[:2], [1.0, 0.0, 0.0, 1.0, 1.0])
    ledger.tick(100.0, None)
    record = closed(ledger)
    assert (record.state, record.score.regret) == ("closed", 0.5)
    agents = [group for group in ledger.state.queue.values() if group.role == "agent"]
    assert [len(group.members) for group in agents] == [3]


def test_a_window_nobody_played_has_no_reward_and_its_design_is_not_trained(ledger):
    ledger.tick(100.0, None)
    assert closed(ledger).score.reward is None
    assert not ledger.state.queue
    assert ledger.state.statistics.learnable_share() == 0.0


def test_chunks_begun_come_before_new_ones():
    ledger = begin("design.active_environments=2", "design.round_jobs=2")
    ledger.apply(environment(leased_job(ledger, 1.0), 1), "designer/1", 1.0)
    assert [play.id[:9] for play in lease(ledger, 2)] == ["e000000-0"] * 2
    rest = [play.id[:9] for play in ledger.apply(LeasePlays(100, 0.0), "agent/1", 0.0).plays]
    assert rest == ["e000000-0"] * 6 + ["e000001-0"] * 8


def test_a_play_that_sampled_nothing_counts_and_is_not_trained(ledger):
    plays = arm(lease(ledger), False)
    empty = SubmitPlays((EndedPlay(plays[0].id, 1, "truncated", 0.0, (), 0.1, trajectory(1, sampled=0)),))
    ledger.apply(empty, "agent/1", 0.0)
    finish(ledger, plays[1:], [1.0, 0.0, 1.0])
    (group,) = ledger.state.queue.values()
    assert [member.trajectory for member in group.members] == [play.id for play in plays[1:]]
    assert ledger.state.counters.plays == 4


def test_a_window_that_a_resume_made_shorter_closes_when_all_it_has_is_over():
    ledger = begin("play.window_chunks=3")
    finish(ledger, lease(ledger), [0.0, 1.0] * 4)
    ledger.state.config = config(*ONE, "play.window_chunks=1")
    ledger.tick(1.0, None)
    assert not ledger.state.environments
