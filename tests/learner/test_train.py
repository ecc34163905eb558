"""The learner as a process against the replay service as a process; killed, drained, and its parameters compared."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from learner import checkpoint
from learner.train import Learner
from spade import config
from spade.errors import RefusedError, RunError
from spade.policy.model import parameters_digest
from spade.protocol import StepMetrics
from tests.learner.fed_learner import SMALL, running
from tests.peers import pid_of


async def test_killed_it_resumes_drained_it_keeps_what_it_learnt_and_another_store_stops_it(tiny_checkpoint, tmp_path):
    settings = config.load("nano", (*SMALL, f"model.path={tiny_checkpoint}"))
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

    shutil.rmtree(tmp_path / "store")
    with pytest.RaisesGroup(
        pytest.RaisesExc(RunError, match="checkpoints .*step 7 cannot retire"),
        allow_unwrapped=True, flatten_subgroups=True,
    ):  # fmt: skip
        async with running(settings, tmp_path):
            pass


async def test_a_step_that_is_refused_ends_the_learner_for_good(monkeypatch, tmp_path):
    """As where all checkpoints are gone and retention has deleted the first batches: no restart mends that."""

    class Untrained:
        step = 0

    class Refusing:
        async def take_batch(self, step, wait_s):
            raise RefusedError(f"the trajectories of step {step} were deleted by retention")

    async def published(self):
        """Nothing is."""

    monkeypatch.setattr(Learner, "_publish", published)
    learner = Learner(Untrained(), StepMetrics(), Refusing(), config.load("nano"), tmp_path)
    with pytest.raises(RunError, match=r"checkpoints: .* step 1 .*deleted by retention"):
        await learner.live()
