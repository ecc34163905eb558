"""The replay service and the learner as processes, and a feeder that brings them what actors would."""

import math
from contextlib import asynccontextmanager

import numpy as np
import trio

from spade import codec
from spade.protocol import Trajectory, Weights
from tests.masks import pack_mask
from tests.peers import supervised
from tests.replay import feeding
from tests.replay.everyone import everyone

# Every environment brings two plays and a design to train on and a step takes 8 or 9 sequences, so 18 environments
# make exactly 6 steps and 21 exactly 7: past the checkpoint of step 4, short of that of step 8.
SMALL = (
    "design.active_environments=6", "design.active_skills=3", "design.round_jobs=3",
    "play.group_size=2", "play.window_chunks=1", "learner.batch_sequences=8", "learner.checkpoint_every=4",
    "learner.agent_lag=100", "learner.lr=1e-3", "bus.heartbeat_s=0.2", "bus.silence_s=5.0",
    "supervise.drain_s=120", "audit.replays=0", "audit.random_plays=0",
)  # fmt: skip


class Feeder:
    """Stands in for all actors: whatever work the replay service leases is answered with random tokens."""

    def __init__(self, replay):
        self.client = replay.client
        self.replay = replay
        self.rng = np.random.default_rng(5)

    def trajectory(self):
        length = int(self.rng.integers(6, 30))
        mask = [False, *(self.rng.random(length - 2) < 0.5).tolist(), True]
        logprobs = -self.rng.exponential(3.0, sum(mask))
        tokens = codec.pack_ids(self.rng.integers(0, 200, length).tolist()), pack_mask(mask)
        version = self.client.pulse.weights.version
        return Trajectory(*tokens, codec.pack_floats(logprobs.tolist()), ((version, sum(mask)),), 1.0)

    async def design(self, count):
        await feeding.design(self.replay, count, self.trajectory)

    async def play(self):
        await feeding.play(self.replay, math.inf, self.trajectory)

    async def until(self, step) -> Weights:
        """The newest weights once those of `step` are published."""
        while self.client.pulse.weights is None or self.client.pulse.weights.step < step:
            await self.client.wait_pulse()
        return self.client.pulse.weights


@asynccontextmanager
async def running(settings, run):
    """The replay service and the learner under a supervisor, fed; yields (supervisor, feeder)."""
    async with (
        supervised(run, settings, "replay", "learner") as supervisor,
        everyone(f"ipc://{run}/replay", settings) as replay,
        trio.open_nursery() as nursery,
    ):
        feeder = Feeder(replay)
        await feeder.until(0)
        nursery.start_soon(feeder.play)
        yield supervisor, feeder
        nursery.cancel_scope.cancel()
