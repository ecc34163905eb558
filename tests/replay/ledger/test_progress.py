"""Pacing: settings that are accepted make progress, and what is paced keeps the lag bound without waste."""

from random import Random

import msgspec
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st

from replay.ledger.ledger import Ledger
from replay.ledger.records import BatchRecord
from replay.ledger.state import RunState
from spade.errors import ConfigError
from spade.protocol import LeaseDesigns, LeasePlays, TakeBatch
from tests.replay.replay_world import (
    SECRET,
    Pace,
    World,
    config,
    environment,
    played,
    trajectory,
    void,
    weights,
)


@st.composite
def small_runs(draw):
    """Settings of a small run, the odd ones included; refused ones are none."""
    group, slots, skills = draw(st.integers(2, 6)), draw(st.integers(1, 6)), draw(st.integers(1, 3))
    try:
        return config(
            f"play.group_size={group}", f"play.window_chunks={draw(st.integers(1, 4))}",
            f"design.active_environments={slots}", f"design.active_skills={skills}",
            f"design.round_jobs={skills * draw(st.integers(1, 4))}",
            f"learner.batch_sequences={draw(st.integers(group, 2 * group * slots))}",
            f"learner.agent_lag={draw(st.integers(0, 4))}", f"learner.publish_every={draw(st.integers(1, 4))}",
            "learner.group_deadline_s=100_000",
        )  # fmt: skip
    except ConfigError:
        reject()


@settings(max_examples=25)
@given(small_runs(), st.integers(0, 1_000), st.sampled_from([0.0, 0.05]))
def test_every_run_that_is_accepted_makes_progress(run, seed, lost):
    """However its numbers meet: learner steps go on to the end of a long simulation."""
    world = World(run, seed, Pace(play_s=1.0, design_s=1.0, step_s=1.0, lost=lost))
    world.run(100.0)
    half = world.ledger.state.counters.taken_step
    world.run(250.0)
    assert world.ledger.state.counters.taken_step > half, run


class Paced:
    """A loop whose every request comes when chance likes: any play may last for ever, or be over at once."""

    def __init__(self, run, random: Random) -> None:
        self.ledger = Ledger(RunState(run, SECRET))
        self.random = random
        self.plays: list = []
        self.lags: list[int] = []
        self.order = random.random()  # near 0 whoever began first ends first, near 1 last: the oldest plays linger
        self.ledger.apply(weights(0), "learner", 0.0)

    def step(self) -> None:
        """One request of anybody, then what it makes due. No time passes, so no deadline can be the reason."""
        ledger, counters = self.ledger, self.ledger.state.counters
        match self.random.choice(["design", "lease", "end", "end", "end", "end", "take", "publish"]):
            case "design":
                answer = ledger.apply(LeaseDesigns(3, 0.0), "designer", 0.0)
                for job in () if answer is None else answer.jobs:
                    # A design without a sampled token is no sequence: designer groups are not foreseen by pacing.
                    ledger.apply(_untrained(environment(job, 1)), "designer", 0.0)
            case "lease":
                answer = ledger.apply(LeasePlays(self.random.randint(1, 16), 0.0), "agent", 0.0)
                self.plays += [(play, ledger.state.version) for play in (() if answer is None else answer.plays)]
            case "end" if self.plays:
                play, version = self.plays.pop(int(self.random.triangular(0, 1, self.order) * (len(self.plays) - 1)))
                value = float(self.random.random() < 0.5)
                ledger.apply(void(play) if self.random.random() < 0.05 else played(play, value, version), "agent", 0.0)
            case "take" if ledger.state.version_at(counters.taken_step + 1) == ledger.state.version:
                batch = ledger.apply(TakeBatch(counters.taken_step + 1, 0.0), "learner", 0.0)
                if isinstance(batch, BatchRecord):
                    self.lags += [batch.version - member.version for group in batch.groups for member in group.members]
            case "publish" if counters.taken_step % ledger.state.config.learner.publish_every == 0:
                ledger.apply(weights(counters.taken_step), "learner", 0.0)
        ledger.advance(0.0)


def _untrained(submitted):
    return msgspec.structs.replace(submitted, trajectory=trajectory(1, sampled=0))


VOIDS = config(
    "play.group_size=5", "play.window_chunks=4", "design.active_environments=5", "design.active_skills=1",
    "design.round_jobs=3", "learner.batch_sequences=10", "learner.agent_lag=0", "learner.publish_every=3",
    "learner.group_deadline_s=100_000",
)  # fmt: skip


@settings(max_examples=40)
@given(small_runs(), st.integers(0, 1_000_000))
@example(VOIDS, 9)  # voids of a chunk in flight once let another one in before it
def test_pacing_keeps_the_lag_bound_and_wastes_nothing_whatever_the_order(run, seed):
    """However plays, steps and publications interleave, no agent trajectory ever comes over the bound."""
    loop = Paced(run, Random(seed))
    for _ in range(1_500):
        loop.step()
        assert loop.ledger.state.counters.wasted == 0
    assert max(loop.lags, default=0) <= run.learner.agent_lag
