"""The interface of a backend: one policy, its optimiser, and exact saving and loading of both."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from spade.protocol import Batch, StepMetrics


class Backend(Protocol):
    """One thread at a time calls it."""

    @property
    def model(self) -> Any:
        """The policy as a Hugging Face model, whole and current; valid until the next step."""

    @property
    def step(self) -> int:
        """Learner steps taken, resumed ones included."""

    def train(self, batch: Batch, interrupt: Callable[[], None] = lambda: None) -> StepMetrics:
        """Take learner step `batch.step`, which must be `step` + 1.

        `interrupt` is called between micro-batches until a parameter changes; its exceptions leave parameters and
        optimiser unchanged, to be saved. Raises RunError if gradients stay non-finite.
        """

    def save(self, folder: Path) -> dict[str, str]:
        """Write parameters, optimiser state, random state and step into an existing folder.

        Returns the digests (`checkpoint.file_digest`) of files that other processes have written, by their paths in it.
        """

    def load(self, folder: Path) -> None:
        """Continue from a folder that `save` of any backend wrote. Raises RunError if it does not fit this model."""

    def close(self) -> None:
        """Let the backend's other processes leave; in trio's thread."""
