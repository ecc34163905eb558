"""The interface of a backend: one policy, its optimiser, and exact saving and loading of both."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from spade.protocol import Batch, StepMetrics


class Backend(Protocol):
    """Used by one thread at a time, but for `watch`."""

    @property
    def model(self) -> Any:
        """The policy as a Hugging Face model, whole and current; valid until the next step."""

    @property
    def step(self) -> int:
        """Learner steps taken, resumed ones included."""

    def train(self, batch: Batch, interrupt: Callable[[], None] = lambda: None) -> StepMetrics:
        """Take learner step `batch.step`, which must be `step` + 1.

        `interrupt` is called between micro-batches for as long as no parameter has changed; what it raises leaves
        parameters and optimiser as they were, to be saved. Raises RunError where gradients stay non-finite.
        """

    def save(self, folder: Path) -> None:
        """Write parameters, optimiser, random state and step into an existing folder."""

    def load(self, folder: Path) -> None:
        """Continue from what `save` of any backend wrote. Raises RunError where it does not fit this model."""

    async def watch(self) -> None:
        """Raises SpadeError when a process it needs has ended; returns where it needs no other."""

    def close(self) -> None:
        """End the processes it started."""
