"""The learner as a process against the replay service as a process; killed, drained, and its parameters compared."""

import os
import signal
from pathlib import Path

import trio

from learner import checkpoint
from spade import config
from spade.policy.model import parameters_digest
from tests.learner.fed_learner import SMALL, pid_of, running


async def test_killed_it_resumes_exactly_and_drained_it_keeps_what_it_learnt(tiny_checkpoint, tmp_path):
    settings = config.load("nano", (*SMALL, f"model.path={tiny_checkpoint}"))
    with trio.fail_after(60):
        async with running(settings, tmp_path) as (supervisor, feeder):
            await feeder.design(18)
            await feeder.until(6)
            os.kill(pid_of(supervisor, "learner"), signal.SIGKILL)
            await feeder.design(3)
            weights = await feeder.until(7)
            assert "resumed at step 4 " in (tmp_path / "logs" / "learner.log").read_text()
            # The steps after the checkpoint were taken twice. Had one bit of their parameters differed, they would have
            # been published under a second digest, and so under a version beyond one for each step and the initial one.
            assert weights.version == weights.step + 1
            folder = Path(weights.path)
            assert folder == tmp_path / "weights" / weights.digest == tmp_path / "weights" / parameters_digest(folder)
            assert (folder / "tokenizer.json").is_file()

            await supervisor.stop("learner")
            _, manifest = checkpoint.newest(tmp_path / "checkpoints")
            assert manifest.step == (await feeder.replay.status()).learner_step == 7
            assert manifest.metrics.trained_tokens > 0
