"""The reasons why nothing is handed out; the time for which a run has stalled."""

import pytest

from replay.ledger.ledger import Ledger
from replay.ledger.state import RunState
from replay.service.why import Progress, explain_no_batch, explain_no_job, explain_no_play, explain_waits, list_own
from spade.protocol import LeaseDesigns, LeasePlays, TakeBatch, Wait
from tests.replay.replay_world import SECRET, config, environment, played, weights

# Two slots; windows of two chunks of 4 plays; batches of 4.
SETTINGS = config(
    "design.active_environments=2", "design.round_jobs=2", "design.active_skills=1", "play.window_chunks=2",
    "play.group_size=4", "learner.batch_sequences=4", "learner.agent_lag=0",
)  # fmt: skip


def test_each_stage_of_the_loop_names_its_missing_input():
    ledger = Ledger(RunState(SETTINGS, SECRET))
    unpublished = "the learner has published no weights yet"
    assert explain_no_batch(ledger) == explain_no_play(ledger) == explain_no_job(ledger) == unpublished

    ledger.apply(weights(0), "learner/1", 0.0)
    ledger.advance(0.0)
    assert explain_no_play(ledger) == "no environment is active; 2 design jobs are open or leased"
    (first, second) = ledger.apply(LeaseDesigns(2, 0.0), "designer-0/7", 1.0).jobs
    assert explain_no_job(ledger) == "0 of 2 slots have an environment, 2 have a leased job"
    assert list_own(ledger.state, 3.0) == (Wait("designer-0", "design jobs", 2, 2.0, "replay"),)

    for job in (first, second):
        ledger.apply(environment(job, 1), "designer-0/7", 4.0)
    assert explain_no_job(ledger) == "2 of 2 slots have an environment, 0 have a leased job"
    plays = ledger.apply(LeasePlays(8, 0.0), "agent-0/8", 5.0).plays
    assert ledger.apply(LeasePlays(8, 0.0), "agent-1/9", 6.0) is None
    assert explain_no_play(ledger) == "8 plays are held back while 4 sequences are to be trained"
    assert explain_no_batch(ledger) == "0 of 4 sequences"
    assert list_own(ledger.state, 9.0) == (Wait("agent-0", "plays", 8, 4.0, "replay"),)

    for index, play in enumerate(plays):
        ledger.apply(played(play, float(index % 2), 1), "agent-0/8", 10.0)
    assert explain_no_batch(ledger) == "4 of 4 sequences"
    assert ledger.apply(TakeBatch(1, 0.0), "learner/1", 11.0) is not None
    assert list_own(ledger.state, 13.0) == (Wait("learner", "step 1", 1, 2.0, "replay"),)
    ledger.apply(weights(1), "learner/1", 14.0)
    assert list_own(ledger.state, 15.0) == ()


def test_only_waits_for_the_service_are_explained():
    ledger = Ledger(RunState(SETTINGS, SECRET))
    waits = (Wait("engine-0", "LeasePlays"), Wait("replay", "SubmitPlays"), Wait("replay", "TakeBatch"))
    assert [wait.why for wait in explain_waits(waits, ledger)] == ["", "", "the learner has published no weights yet"]


@pytest.mark.parametrize(("looks", "stalls"), [
    # (step, plays, now)
    ([(0, 0, 0), (0, 0, 9), (0, 0, 10), (0, 0, 11)], [False, False, True, False]),
    ([(0, 0, 0), (0, 1, 9), (0, 1, 10), (0, 1, 18.9), (0, 1, 19)], [False, False, False, False, True]),
    ([(0, 0, 10), (1, 0, 11), (1, 0, 20), (1, 0, 21)], [True, False, False, True]),
])  # fmt: skip
def test_a_stall_is_told_once(looks, stalls):
    progress = Progress(10.0, 0.0)
    assert [progress.look(*look) for look in looks] == stalls


def test_the_length_of_a_stall():
    progress = Progress(10.0, 5.0)
    progress.look(0, 0, 14.0)
    assert progress.stalled_s(14.5) == 0.0
    progress.look(0, 0, 16.0)
    assert progress.stalled_s(17.0) == 12.0
    progress.look(0, 1, 18.0)
    assert progress.stalled_s(19.0) == 0.0
