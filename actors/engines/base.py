"""What every engine offers. An engine is driven by one thread; nothing in it waits."""

from collections.abc import Sequence
from typing import Protocol

from spade.protocol import Generate, Generated, Refused, Weights

Result = Generated | Refused | Exception
Results = Sequence[tuple[int, Result]]


class Engine(Protocol):
    """Batched sampling with continuous admission: requests come and go between two decode steps."""

    version: int  # policy version of the weights in use; 0 where they are none that were published

    @property
    def busy(self) -> bool:
        """True while `step` has work."""
        ...

    @property
    def active(self) -> int:
        """Sequences being sampled."""
        ...

    @property
    def queued(self) -> int:
        """Requests that wait for a row."""
        ...

    @property
    def sampled(self) -> int:
        """Tokens sampled since the start."""
        ...

    def refusal(self, request: Generate) -> str | None:
        """Why `request` can never be served, None if it can. Pure; may be asked from any thread."""
        ...

    def submit(self, id: int, request: Generate) -> None:
        """Queue a request that `refusal` has nothing against, under an id of the caller's that is not in use.

        What it raises is that request's fault, which is then forgotten.
        """
        ...

    def cancel(self, id: int) -> None:
        """Forget a request; it may have been answered already."""
        ...

    def step(self) -> Results:
        """One decode step, or a moment's wait for who samples elsewhere: the requests that ended since the last.

        Refused is what turned out not to be served after all, an exception what nobody foresaw in serving that request
        alone. What `step` raises is no single request's, and ends the engine.
        """
        ...

    def load_weights(self, weights: Weights) -> None:
        """Sample from `weights`, of which the folder is on this host, from the next step on; sequences in flight go on.

        Raises WeightsError where they are unfit, FileNotFoundError where they are gone; the old ones stay then.
        """
        ...

    def logprobs(self, ids: Sequence[int]) -> list[float]:
        """Log-probabilities of ids[1:], each given those before it, at temperature 1, in nats.

        They are of the weights in use, by the way that tokens are sampled; at least 2 ids, of which none is kept.
        """
        ...

    def close(self) -> None:
        """Let go of processes and connections. Nothing is asked of the engine afterwards."""
        ...
