"""A replay service within a test of the learner: it has batches, and writes down what it is told."""

import math
from types import SimpleNamespace

import trio

from learner import checkpoint
from spade.policy.manifest import PARAMETERS
from spade.protocol import Weights
from spade.waits import Waits


class Replay:
    """Has the `batches` of the first steps. `root` is the run directory of the learner."""

    def __init__(self, batches, root):
        self.told = []
        self.retired = []
        self.done = trio.Event()
        self.silent = math.inf  # the first step whose publication is not answered
        self.client = SimpleNamespace(
            refusal="", gauges={}, waits=Waits(trio.current_time), pulse=SimpleNamespace(weights=None)
        )
        self.batches = {batch.step: batch for batch in batches}
        self._root = root

    async def take_batch(self, step, wait_s):
        if step not in self.batches:
            self.done.set()
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return self.batches[step]

    async def publish(self, step, digest, path, metrics):
        if step >= self.silent:
            self.done.set()
            await trio.sleep_forever()
        assert PARAMETERS in {file.name for file in (self._root / "weights" / digest).iterdir()}
        self.told.append(("weights", step, digest))
        return Weights(step + 1, step, digest, path)

    async def retire(self, digests):
        self.retired += digests
        return tuple(digests)

    async def checkpointed(self, step):
        checkpoint.verify_checkpoint(self._root / "checkpoints" / f"step-{step}")
        self.told.append(("checkpoint", step))
