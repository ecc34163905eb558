"""Both actors between the real engine and the real env-runner; the words are those of a tiny random model."""

import itertools

import numpy as np

from actors import corpus
from actors.engines import server as engine_server
from actors.environments import runner as env_runner
from actors.roles import agent, designer
from spade.codec import compute_program_digest, unpack_floats, unpack_ids, unpack_mask
from spade.policy.model import compute_parameters_digest
from spade.protocol import DesignJob, EndedPlay, PlayLease, RejectCandidate, Weights
from spade.tokens import Tokenizer
from tests.actors.small_services import SmallReplay, actor_settings, process, small_replay

ECHO = """\
class EchoEnv:
    def reset(self, seed):
        return "Say something. Actions: yes no", {}

    def step(self, action):
        return f"You said {action!r}. Actions: yes no", 0.5, False, False, {}
"""


async def test_trajectories_hold_what_the_engine_sampled(tiny_checkpoint):
    settings = actor_settings(
        tiny_checkpoint, "play.max_turns=3", "play.context_tokens=384", "design.max_tokens=32", "design.attempts=2",
        "engine.rows=8", "engine.context_tokens=512", "bus.silence_s=30.0",
    )  # fmt: skip
    small = SmallReplay(
        [
            PlayLease(
                f"p{i}", 1, "e1", compute_program_digest(ECHO), "Say yes." if i % 2 else None, seed=i // 2, sampler=i
            )
            for i in range(12)
        ],
        [DesignJob(f"j{i}", 1, 0, "optimization", draw=i, sampler=i) for i in range(2)],
        [ECHO],
    )
    small.weights = Weights(5, 0, compute_parameters_digest(tiny_checkpoint), str(tiny_checkpoint))
    async with (
        small_replay(small, settings) as replay,
        process(engine_server.run, "engine", replay, settings),
        process(env_runner.run, "env-runner", replay, settings),
        process(agent.run, "agent", replay, settings),
        process(designer.run, "designer", replay, settings),
    ):
        await small.until_done(16)
    plays = [done for done in small.done if isinstance(done, EndedPlay)]
    rejects = [done for done in small.done if isinstance(done, RejectCandidate)]
    assert (len(plays), len(rejects)) == (12, 4)

    tokenizer = Tokenizer.load(tiny_checkpoint)
    for done in (*plays, *rejects):
        trajectory = done.trajectory
        mask, logprobs = unpack_mask(trajectory).astype(bool), unpack_floats(trajectory.logprobs)
        assert trajectory.versions == ((5, mask.sum()),)
        assert len(logprobs) == mask.sum()
        assert np.all(logprobs < 0)
    for play in plays:
        assert (play.outcome, play.rewards, play.episode_return) == ("truncated", (0.5,) * 3, 0.0)
        runs = itertools.groupby(unpack_mask(play.trajectory).tolist())
        assert [sampled for sampled, _ in runs] == [0, 1] * 3
        text = tokenizer.decode(unpack_ids(play.trajectory.ids).tolist())
        assert ("Hint: Say yes." in text) == (int(play.id[1:]) % 2 == 1)
        assert text.count("You said") == 2
    documents = corpus.load("builtin")
    for reject in rejects:
        assert reject.stage in ("length", "extract")
        assert reject.document == documents[int(reject.job[1:]) + reject.attempt - 1].id
        mask = unpack_mask(reject.trajectory).astype(bool)
        assert reject.completion == tokenizer.decode(unpack_ids(reject.trajectory.ids)[mask].tolist())
