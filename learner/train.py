"""The learner process, a client of the replay service: take a batch and train. `learner.writer` writes the results.

The service records batches by step. So a learner that resumes at step s gets the batches after s again, in order, and
reaches the same parameters as a learner that never stopped (on a GPU they differ by rounding).
"""

import logging
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import msgspec
import trio

from learner import checkpoint, weights
from learner.backends.base import Backend
from learner.backends.opening import open_backend
from learner.backends.rank import serve_rank
from learner.backends.ranks import Ranks
from learner.broadcast import broadcast
from learner.claim import Claim
from learner.writer import Work, Writer
from replay.client import ReplayClient
from spade.config import Config
from spade.errors import RefusedError, RunError
from spade.policy import kept
from spade.policy.model import require_gpus
from spade.processes.entry import Launch, connect_to_replay, main
from spade.protocol import Batch, StepMetrics
from spade.transport.pump import run_in_background

log = logging.getLogger(__name__)


class Learner:
    """The training loop over one backend. Computing and writing run in worker threads, so that heartbeats go on."""

    def __init__(
        self, backend: Backend, metrics: StepMetrics, replay: ReplayClient, config: Config, run: Path, claim: Claim
    ) -> None:
        self._backend = backend
        self._metrics = metrics
        self._replay = replay
        self._config = config
        self._checkpoints = run / "checkpoints"
        self._writer = Writer(replay, config, run, claim, saved=backend.step)
        self._policy: weights.PolicyCopy | None = None
        self._skipped = 0
        self._read_tokens = self._trained_tokens = 0
        self._computed_tokens = 0.0

    async def live(self) -> None:
        """Train until cancelled. Then write a checkpoint."""
        if saved := self._writer.saved:  # report it again, because the last process may have ended before its report
            try:
                await self._replay.checkpointed(saved)
            except RefusedError as error:
                if self._replay.client.refusal:  # the service refuses this process, not the checkpoint
                    raise
                raise RunError(
                    f"{self._checkpoints}: these are not checkpoints of this run's store ({error}); "
                    "bring back the store they belong to, or move them away to begin anew"
                ) from None
        try:
            async with run_in_background(self._writer.run):
                try:
                    await self._hand_over(publish=True, save=False)
                    while True:
                        await self._step()
                finally:
                    await self._writer.leave()
        except* trio.Cancelled:
            # The bus is closing. The next start will report this checkpoint to the replay service.
            with trio.CancelScope(shield=True):
                if self._backend.step > self._writer.saved:
                    await self._writer.keep_policy()  # keep it now, because `_copy` overwrites it
                    copy = partial(self._copy, publish=False, keep=False, save=True)
                    await self._writer.save(await trio.to_thread.run_sync(copy))
            raise

    async def _step(self) -> None:
        learner = self._config.learner
        before = trio.current_time()
        batch = await self._take(self._backend.step + 1)
        started = trio.current_time()
        with self._replay.client.waits.on("its backend", f"step {batch.step}"):
            metrics = await trio.to_thread.run_sync(self._backend.train, batch, trio.from_thread.check_cancelled)
        ended = trio.current_time()
        self._metrics = msgspec.structs.replace(metrics, wait_s=started - before, step_s=ended - started)
        self._report()
        await self._hand_over(
            publish=batch.last or batch.step % learner.publish_every == 0,
            save=batch.last or batch.step % learner.checkpoint_every == 0,
        )

    async def _take(self, step: int) -> Batch:
        """Wait for the batch of `step`. Raises RunError if it is refused."""
        waited_for = ""
        while True:
            try:
                answer = await self._replay.take_batch(step, self._config.bus.call_deadline_s)
            except RefusedError as error:
                if self._replay.client.refusal:  # the service refuses this process, not the step
                    raise
                raise RunError(
                    f"{self._checkpoints}: the replay service refuses step {step}, which follows the newest checkpoint "
                    f"({error}); if newer checkpoints are missing, bring them back, else start a new run"
                ) from None
            if isinstance(answer, Batch):
                return answer
            if answer.reason != waited_for:
                waited_for = answer.reason
                log.info("step %d waits: %s", step, waited_for)

    async def _hand_over(self, *, publish: bool, save: bool) -> None:
        """Hand the writer a copy of what is due after the current step: weights, policy, checkpoint.

        Waits until the previous copy is written.
        """
        step, learner = self._backend.step, self._config.learner
        keep = step > 0 and learner.keep_policy_every > 0 and step % learner.keep_policy_every == 0
        if not (publish or keep or save):
            return
        with self._replay.client.waits.on("its writer", f"step {step}"):
            await self._writer.hand_over(partial(self._copy, publish=publish, keep=keep, save=save))
            if save and not self._backend.copies_state:
                await self._writer.settle()

    def _copy(self, *, publish: bool, keep: bool, save: bool) -> Work:
        model = self._backend.model
        self._policy = self._policy or weights.PolicyCopy(model, self._config.model.dtype)
        self._policy.take(model)
        state: checkpoint.Save | None = None
        if save:
            state = self._backend.freeze() if self._backend.copies_state else self._backend.save
        return Work(self._backend.step, self._metrics, self._policy, publish, keep, state)

    def _report(self) -> None:
        metrics, step = self._metrics, self._backend.step
        self._skipped += metrics.skipped
        self._read_tokens += metrics.read_tokens
        self._computed_tokens += metrics.computed_fraction * metrics.read_tokens
        self._trained_tokens += metrics.trained_tokens
        self._replay.client.gauges.update(
            learner_step=float(step),
            step_s=metrics.step_s,
            wait_s=metrics.wait_s,
            trained_tokens_per_s=metrics.trained_tokens / metrics.step_s,
            skipped_steps=float(self._skipped),
            read_tokens=float(self._read_tokens),
            computed_tokens=self._computed_tokens,
            trained_tokens=float(self._trained_tokens),
        )
        log.info(
            "step %d: loss %.4f, gradient %.3f, %d tokens, %d + %d sequences, %.1f s after waiting %.1f s",
            step, metrics.loss, metrics.grad_norm, metrics.trained_tokens, metrics.agent_sequences,
            metrics.designer_sequences, metrics.step_s, metrics.wait_s,
        )  # fmt: skip


async def run(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Serve as the learner of the run directory `launch.run`, or as one of its further ranks, until cancelled."""
    require_gpus("learner.gpus", config.learner.gpus, launch.gpus)
    if launch.index:
        await serve_rank(launch, config, ready)
        return
    folder, ranks = Path(launch.run), Ranks(config)
    async with broadcast(launch.bind, folder / "weights", config, ranks) as address:
        claim = Claim(folder / "checkpoints", launch.name, launch.life)
        await trio.to_thread.run_sync(claim.take, *(folder / name for name in ("checkpoints", "weights", kept.FOLDER)))
        async with connect_to_replay(launch, config, address) as client, trio.open_nursery() as nursery:
            nursery.start_soon(ranks.watch)
            replay = ReplayClient(client, config.bus.call_deadline_s)
            with ExitStack() as waits:
                for holder in ["its backend", *ranks.names]:
                    waits.enter_context(client.waits.on(holder, "the model"))
                found = await trio.to_thread.run_sync(checkpoint.find_newest, folder / "checkpoints")
                backend, metrics = await trio.to_thread.run_sync(
                    open_backend, config, found, ranks, abandon_on_cancel=True
                )
            ready()
            with closing(backend):
                await Learner(backend, metrics, replay, config, folder, claim).live()


if __name__ == "__main__":
    main(run)
