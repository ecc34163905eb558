"""Define the interface of a backend: one policy, its optimiser, and exact saving and loading of both."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from learner.checkpoint import Save
from spade.protocol import Batch, StepMetrics


class Backend(Protocol):
    """A policy in training. Only one thread at a time may call a backend."""

    @property
    def model(self) -> Any:
        """Return the whole current policy as a Hugging Face model, valid until the next step."""

    @property
    def step(self) -> int:
        """Return the number of learner steps taken, including the steps before a resume."""

    def train(self, batch: Batch, interrupt: Callable[[], None] = lambda: None) -> StepMetrics:
        """Take learner step `batch.step`, which must be `step` + 1.

        `interrupt` is called between micro-batches until a parameter changes. If it raises, parameters and optimiser
        are unchanged and can still be saved. Raises RunError if gradients stay non-finite.
        """

    @property
    def copies_state(self) -> bool:
        """Return True if checkpoints should be written from a copy (`freeze`) while the next step runs.

        Return False if a copy needs more memory than `save`, or if several processes write.
        """

    def save(self, folder: Path) -> dict[str, str]:
        """Write parameters, optimiser state, random state and step into an existing folder. See `Save`."""

    def freeze(self) -> Save:
        """Copy the state into the CPU's memory. Returns a function that writes the copy as `save` does, at any time."""

    def load(self, folder: Path) -> None:
        """Continue from a folder that `save` of any backend wrote. Raises RunError if it does not fit this model."""

    def close(self) -> None:
        """End the backend's other processes. Call this in trio's thread."""
