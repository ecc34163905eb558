"""Train with DeepSpeed in one process or several (`ranks`). Each process has a part of the work and state (`zero`).

The learner is the first rank. It sends the other ranks each batch, and commands to gather, save or load. Every rank has
its own `Shard`.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from learner import checkpoint
from learner.backends.deepspeed_settings import choose_dtype, find_device, prepare
from learner.backends.meeting import join, open_store
from learner.backends.ranks import Ranks
from learner.backends.zero import Shard
from learner.models.loaded import CPU, Whole, load_policy, load_reference
from spade.config import Config
from spade.protocol import Batch, Gather, Load, Meet, Save, StepMetrics


class DeepSpeedBackend:
    """A backend on DeepSpeed. DeepSpeed's global state allows only one backend in the life of a process.

    After the loss of a rank all methods but `close` raise SpadeError, and the learner must be started again.
    """

    def __init__(self, config: Config, ranks: Ranks) -> None:
        """Load the models and meet the other ranks.

        Raises ConfigError if DeepSpeed or GPUs are missing, SpadeError if a rank does not come.
        """
        prepare(config)
        self._config = config
        self._whole: Whole | None = None
        self._ranks = ranks
        self._trained, held_to = load_policy(config, CPU, choose_dtype(config)), load_reference(config, CPU)
        device = find_device(config)
        store, port = open_store(ranks.host, ranks.count)
        ranks.tell(Meet(ranks.host, port, device.type))
        with ranks.needed():
            join(store, ranks.host, 0, ranks.count, device)
            self._shard = Shard(self._trained, held_to, config, 0)

    @property
    def model(self) -> Any:
        """Return the trained model. If it is sharded or has an adapter, gather a whole model from all ranks."""
        if self._config.learner.zero_stage < 3 and not self._config.learner.lora_rank:
            return self._trained
        self._whole = self._whole or Whole(self._config)
        return self._whole.filled(
            (name.removeprefix("parameter."), value) for name, value in self._gather(optimizer=False)
        )

    @property
    def step(self) -> int:
        """Return the number of learner steps taken."""
        return self._shard.step

    def train(self, batch: Batch, interrupt: Callable[[], None] = lambda: None) -> StepMetrics:
        """See `base.Backend.train`."""
        if batch.step != self.step + 1:
            raise ValueError(f"batch of step {batch.step} after step {self.step}")
        self._ranks.tell(batch)
        with self._ranks.needed():
            return self._shard.train(batch, interrupt)

    @property
    def copies_state(self) -> bool:
        """See `base.Backend.copies_state`. True for whole checkpoints, because gathering the state copies it anyway."""
        return self._config.learner.checkpoint == "whole"

    def save(self, folder: Path) -> dict[str, str]:
        """Write the state (see `state`). This rank gathers and writes the whole state, or each rank writes its part."""
        if self.copies_state:
            return self.freeze()(folder)
        self._ranks.tell(Save(str(folder)))
        with self._ranks.needed():
            return self._shard.save_part(folder)

    def freeze(self) -> checkpoint.Save:
        """Gather and copy the whole state (see `state`)."""
        return self._shard.freeze(self._gather(optimizer=True))

    def load(self, folder: Path) -> None:
        """See `base.Backend.load`."""
        self._ranks.tell(Load(str(folder)))
        with self._ranks.needed():
            self._shard.load(folder)

    def close(self) -> None:
        """End the other ranks. Call this in trio's thread."""
        self._ranks.close()

    def _gather(self, optimizer: bool) -> Iterator[tuple[str, Any]]:
        self._ranks.tell(Gather(optimizer))
        with self._ranks.needed():
            yield from self._shard.gathered(optimizer)
