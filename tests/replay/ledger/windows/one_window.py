"""A ledger with one environment whose window is open, and its plays."""

from replay.ledger.state import RunState
from spade.protocol import LeasePlays
from tests.replay.replay_world import SECRET, config, environment, leased_job, played, started

# One slot; windows of 2 chunks of 4 plays; at most a quarter of the plays may be void.
ONE = (
    "design.active_environments=1", "design.round_jobs=1", "design.active_skills=1", "play.group_size=4",
    "play.window_chunks=2", "learner.batch_sequences=4", "play.lease_s=10", "play.window_deadline_s=100",
    "play.chunk_wait_s=20", "learner.agent_lag=8",
)  # fmt: skip


def begin(*overrides):
    """A ledger with one environment, e000000, at time 0."""
    return begun(RunState(config(*ONE, *overrides), SECRET))


def begun(state):
    ledger = started(state)
    ledger.apply(environment(leased_job(ledger), 1), "designer/1", 0.0)
    ledger.advance(0.0)
    return ledger


def lease(ledger, count=100, now=0.0, holder="agent/1"):
    """The plays that are leased, unhinted first, by index."""
    answer = ledger.apply(LeasePlays(count, 0.0), holder, now)
    return tuple(sorted(answer.plays, key=lambda play: (play.hinted, play.id))) if answer else ()


def finish(ledger, plays, values, now=0.0, version=1):
    for play, value in zip(plays, values, strict=True):
        ledger.apply(played(play, value, version), "agent/1", now)
    ledger.advance(now)


def arm(plays, hinted):
    return [play for play in plays if play.hinted == hinted]


def closed(ledger):
    """The environment's record as it was written when its window closed."""
    (record,) = [r for table, key, r in ledger.state.changes() if (table, key) == ("environments", "e000000")]
    return record
