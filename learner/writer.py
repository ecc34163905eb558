"""Write the results of a learner step while the next step runs: published weights, kept policies, checkpoints.

The learner hands over a copy of its state in the CPU's memory (`Work`). Only one copy exists at a time, and the next is
made when this one is completely written. So files are written and reported in the order of the steps. Within a step the
order is weights, kept policy, checkpoint. Only after a checkpoint may the replay service drop batches.
"""

import logging
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, NoReturn

import trio

from learner import checkpoint, weights
from learner.backends import state
from learner.claim import Claim
from learner.models import lora
from replay.client import ReplayClient
from spade.config import Config
from spade.disk import link_folder
from spade.policy import kept
from spade.policy.model_folder import resolve
from spade.protocol import StepMetrics

log = logging.getLogger(__name__)


class Work(NamedTuple):
    """A copy of the learner's state after a step, and what to write of it."""

    step: int
    """Learner steps taken."""

    metrics: StepMetrics
    """Metrics of the step."""

    policy: weights.PolicyCopy
    """A copy of the policy. Published weights, kept policies and checkpoints all contain it."""

    publish: bool
    """If True, the weights are announced to the replay service."""

    keep: bool
    """If True, the policy is kept for good."""

    save: checkpoint.Save | None
    """The function that writes the backend's state, or None if no checkpoint is due."""


class Writer:
    """Writes one `Work` after the other, in threads, while the learner trains.

    `saved` is the step of the newest checkpoint, or 0 without one. Step 0 is never saved.
    """

    def __init__(self, replay: ReplayClient, config: Config, run: Path, claim: Claim, saved: int) -> None:
        self.saved = saved
        self._replay = replay
        self._config = config
        self._claim = claim
        self._weights = run / "weights"
        self._checkpoints = run / "checkpoints"
        self._policies = run / kept.FOLDER
        self._tokenizer = resolve(config.model.path)
        self._published: tuple[int, Path] | None = None  # step and folder of the newest weights written
        self._unkept: Work | None = None  # the work with a policy that must be kept and is not kept yet
        self._free = trio.Semaphore(1)  # acquired while a copy exists
        self._give, self._given = trio.open_memory_channel[Work](1)
        self._question = trio.CancelScope()  # the scope of the present request to the replay service
        self._answer_by = math.inf  # until then the replay service must answer; finite once the learner leaves

    async def run(self) -> NoReturn:
        """Write each `Work` that is handed over. Raises OSError, RunError and BusError."""
        while True:
            await self._write(await self._given.receive())

    async def hand_over(self, copy: Callable[[], Work]) -> None:
        """Wait until the last work is written. Then call `copy` in a thread, and pass the result to `run`."""
        await self._free.acquire()
        try:
            work = await trio.to_thread.run_sync(copy)
        except BaseException:
            self._free.release()
            raise
        self._give.send_nowait(work)

    async def settle(self) -> None:
        """Wait until the last work is written, or writing has failed."""
        await self._free.acquire()
        self._free.release()

    async def leave(self) -> None:
        """Finish the present work, although this task is cancelled. Leave out its checkpoint if that has not begun.

        The replay service has a quarter of `supervise.drain_s` to answer.
        """
        self._answer_by = trio.current_time() + self._config.supervise.drain_s / 4
        self._question.deadline = self._answer_by
        with trio.CancelScope(shield=True):
            await self.settle()

    async def keep_policy(self) -> None:
        """Keep the policy that must be kept and is not kept yet, if there is one.

        If the run resumed from a later checkpoint, this policy would not be computed again.
        """
        if self._unkept is not None:
            await trio.to_thread.run_sync(self._keep_policy, self._unkept)
            self._unkept = None

    async def save(self, work: Work) -> None:
        """Write the checkpoint of `work`, and delete all but the newest `learner.keep_checkpoints`."""
        await trio.to_thread.run_sync(self._write_checkpoint, work)
        self.saved = work.step

    async def _write(self, work: Work) -> None:
        self._unkept = work if work.keep else None
        try:
            folder = await trio.to_thread.run_sync(self._write_policy, work)
            if work.publish:
                with self._limit_request():
                    await self._announce(work, folder)
            await self.keep_policy()
            if work.save is not None and self._answer_by == math.inf:
                await self.save(work)
                with self._limit_request():
                    await self._replay.checkpointed(work.step)
        finally:
            self._free.release()

    @contextmanager
    def _limit_request(self) -> Iterator[None]:
        """Cancel the request in the block if the learner leaves and the replay service does not answer in time."""
        with trio.CancelScope(deadline=self._answer_by) as self._question:
            yield

    async def _announce(self, work: Work, folder: Path) -> None:
        """Announce the weights in `folder`, then delete weights that no engine uses any more."""
        announced = await self._replay.publish(work.step, folder.name, str(folder), work.metrics)
        newest = self._replay.client.pulse.weights or announced
        needed = frozenset({announced.digest, newest.digest})
        spare = await trio.to_thread.run_sync(self._list_spare, needed)
        retired = await self._replay.retire(spare) if spare else ()
        await trio.to_thread.run_sync(self._prune, retired)

    def _list_spare(self, needed: frozenset[str]) -> list[str]:
        with self._claim.held():
            return weights.list_spare(self._weights, needed)

    def _prune(self, retired: Iterable[str]) -> None:
        with self._claim.held():
            weights.prune(self._weights, retired, self._claim.check)

    def _write_policy(self, work: Work) -> Path:
        """Write the policy into its folder below `weights`, if that is not done yet. Returns the folder."""
        if self._published is None or self._published[0] != work.step:
            with self._claim.held():
                _, folder = work.policy.write(self._tokenizer, self._weights)
            self._published = work.step, folder
        return self._published[1]

    def _keep_policy(self, work: Work) -> None:
        """Link the policy into the folder of kept policies."""
        folder = self._write_policy(work)
        with self._claim.held():
            if kept.keep(self._policies, work.step, folder, self._claim.check):
                log.info("the policy of step %d is kept", work.step)

    def _write_checkpoint(self, work: Work) -> None:
        """Write a checkpoint: the backend's state, the policy as engines load it, and the LoRA adapter, if any."""
        root, check, learner = self._checkpoints, self._claim.check, self._config.learner
        folder = self._write_policy(work)

        def fill(draft: Path) -> dict[str, str]:
            assert work.save is not None
            measured = work.save(draft)
            link_folder(folder, draft / "model")
            if learner.lora_rank:
                lora.write_adapter(draft / state.FILE, learner, draft / "adapter")
            return measured

        with self._claim.held():
            checkpoint.write(root, work.step, work.metrics, fill, check)
            checkpoint.prune(root, work.step, learner.keep_checkpoints, check)
