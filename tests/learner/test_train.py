"""The loop of the learner; killed and drained as a process: `tests/app/commands/test_replay.py`."""

import pytest

from learner.claim import Claim
from learner.train import Learner
from spade import config
from spade.errors import RefusedError, RunError
from spade.protocol import LifeNumber, StepMetrics


async def test_a_step_that_is_refused_ends_the_learner_for_good(monkeypatch, tmp_path):
    """As where all checkpoints are gone and retention has deleted the first batches: no restart mends that."""

    class Untrained:
        step = 0

    class Taken:
        refusal = ""  # the learner's life is not over

    class Refusing:
        client = Taken()

        async def take_batch(self, step, wait_s):
            raise RefusedError(f"the trajectories of step {step} were deleted by retention")

    async def written(self, **due):
        """Nothing is."""

    monkeypatch.setattr(Learner, "_hand_over", written)
    claim = Claim(tmp_path / "checkpoints", "learner", LifeNumber())
    learner = Learner(Untrained(), StepMetrics(), Refusing(), config.load("nano"), tmp_path, claim)
    with pytest.raises(RunError, match=r"checkpoints: .* step 1 .*deleted by retention"):
        await learner.live()
