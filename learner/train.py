"""The learner process, a client of the replay service: take a batch, train, publish, checkpoint.

The service records batches by step. So a learner that resumes at step s gets the batches after s again, in order, and
reaches the same parameters as a learner that never stopped (on a GPU they differ by rounding).
"""

import logging
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec
import trio

from learner import checkpoint, weights
from learner.backends import state
from learner.backends.base import Backend
from learner.backends.opening import open_backend
from learner.backends.rank import serve_rank
from learner.backends.ranks import Ranks
from learner.broadcast import broadcast
from learner.claim import Claim
from learner.models import lora
from replay.client import ReplayClient
from spade.config import Config
from spade.disk import link_folder
from spade.errors import RefusedError, RunError
from spade.policy import kept
from spade.policy.model import require_gpus
from spade.policy.model_folder import resolve
from spade.processes.entry import Launch, connect_to_replay, main
from spade.protocol import Batch, StepMetrics

log = logging.getLogger(__name__)


class Learner:
    """The training loop over one backend. Computing and writing run in a worker thread, so that heartbeats go on."""

    def __init__(
        self, backend: Backend, metrics: StepMetrics, replay: ReplayClient, config: Config, run: Path, claim: Claim
    ) -> None:
        self._backend = backend
        self._metrics = metrics
        self._replay = replay
        self._config = config
        self._claim = claim
        self._weights = run / "weights"
        self._checkpoints = run / "checkpoints"
        self._policies = run / kept.FOLDER
        self._tokenizer = resolve(config.model.path)
        self._saved = backend.step  # step of the newest checkpoint; step 0 is never saved
        self._published: tuple[int, Path] | None = None  # step and folder of the newest weights written
        self._skipped = 0
        self._read_tokens = self._trained_tokens = 0
        self._computed_tokens = 0.0

    async def live(self) -> None:
        """Train until cancelled. Then write a checkpoint."""
        if self._saved:  # the acknowledgement may have been lost with the process
            try:
                await self._replay.checkpointed(self._saved)
            except RefusedError as error:
                if self._replay.client.refusal:  # the service refuses this process, not the checkpoint
                    raise
                raise RunError(
                    f"{self._checkpoints}: these are not checkpoints of this run's store ({error}); "
                    "bring back the store they belong to, or move them away to begin anew"
                ) from None
        await self._publish()
        await self._keep_policy()  # the previous life may have saved this step but not kept the policy
        try:
            while True:
                await self._step()
        except trio.Cancelled:
            # The bus is closing, so the next start reports this checkpoint to the replay service.
            with trio.CancelScope(shield=True):
                await self._save()
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
        if batch.last or batch.step % learner.publish_every == 0:
            await self._publish()
        await self._keep_policy()
        if batch.last or batch.step % learner.checkpoint_every == 0:
            await self._save()
            await self._replay.checkpointed(batch.step)

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
                    f"{self._checkpoints}: the replay service refuses step {step}, the next after these ({error}); "
                    "if newer checkpoints are missing bring them back, else start a new run"
                ) from None
            if isinstance(answer, Batch):
                return answer
            if answer.reason != waited_for:
                waited_for = answer.reason
                log.info("step %d waits: %s", step, waited_for)

    async def _publish(self) -> None:
        digest, folder = await trio.to_thread.run_sync(self._write_weights)
        announced = await self._replay.publish(self._backend.step, digest, str(folder), self._metrics)
        newest = self._replay.client.pulse.weights or announced
        needed = frozenset({announced.digest, newest.digest})
        spare = await trio.to_thread.run_sync(weights.list_spare, self._weights, needed)
        retired = await self._replay.retire(spare) if spare else ()
        await trio.to_thread.run_sync(weights.prune, self._weights, retired, self._claim.check)

    async def _keep_policy(self) -> None:
        """Keep the policy of the current step for good, if `learner.keep_policy_every` divides the step."""
        step, every = self._backend.step, self._config.learner.keep_policy_every
        if step and every and step % every == 0:
            await trio.to_thread.run_sync(self._link_policy, step)

    def _link_policy(self, step: int) -> None:
        """Link the policy of `step` to its published files. Write these files first if they are missing."""
        with self._claim.held():
            if kept.keep(self._policies, step, self._write_policy(), self._claim.check):
                log.info("the policy of step %d is kept", step)

    def _write_policy(self) -> Path:
        """Return the folder below `weights` with the current policy. Write the folder if it is missing."""
        if self._published is None or self._published[0] != self._backend.step:
            self._write_weights()
        assert self._published is not None
        return self._published[1]

    def _write_weights(self) -> tuple[str, Path]:
        """Write the current policy below `weights`. Returns (digest, folder)."""
        model, dtype = self._backend.model, self._config.model.dtype
        with self._claim.held():
            digest, folder = weights.publish(model, dtype, self._tokenizer, self._weights)
        self._published = self._backend.step, folder
        return digest, folder

    async def _save(self) -> None:
        """Checkpoint the current step, if it is newer than the last checkpoint."""
        step = self._backend.step
        if step > self._saved:
            await trio.to_thread.run_sync(self._write_checkpoint, step)
            self._saved = step

    def _write_checkpoint(self, step: int) -> None:
        """Write the checkpoint of `step`, and delete the oldest ones beyond `learner.keep_checkpoints`."""
        root, check = self._checkpoints, self._claim.check
        with self._claim.held():
            checkpoint.write(root, step, self._metrics, self._fill, check)
            checkpoint.prune(root, step, self._config.learner.keep_checkpoints, check)

    def _fill(self, draft: Path) -> dict[str, str]:
        """Write a checkpoint's files: the backend's state, the policy as engines load it, and a LoRA adapter if used.

        Returns digests as `Backend.save` does.
        """
        measured = self._backend.save(draft)
        link_folder(self._write_policy(), draft / "model")
        if self._config.learner.lora_rank:
            lora.write_adapter(draft / state.FILE, self._config.learner, draft / "adapter")
        return measured

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
