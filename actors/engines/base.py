"""The interface of every engine, and the check for requests that no engine can serve.

One thread drives an engine: it submits, cancels, steps and loads weights. `refusal`, `gauges` and the properties may be
used from any thread.
"""

from collections.abc import Sequence
from typing import Protocol

from spade.codec import unpack_ids
from spade.config.engine_kinds import COLDEST
from spade.protocol import Generate, Generated, Refused, Weights

Result = Generated | Refused | Exception
Results = Sequence[tuple[int, Result]]


class Engine(Protocol):
    """A sampler of batches with continuous admission: requests may come and go between two decode steps."""

    version: int
    """Policy version of the weights in use. 0 if the weights were never published."""

    @property
    def busy(self) -> bool:
        """Return True while `step` has work."""
        ...

    @property
    def active(self) -> int:
        """Return the number of sequences being sampled."""
        ...

    @property
    def queued(self) -> int:
        """Return the number of requests that wait for a row."""
        ...

    @property
    def sampled(self) -> int:
        """Return the number of tokens sampled since the start."""
        ...

    def gauges(self) -> dict[str, float]:
        """Return the token counts that this kind of engine keeps. Their names are explained in docs/metrics.md."""
        ...

    def refusal(self, request: Generate) -> str | None:
        """Explain why `request` can never be served. Returns None if it can.

        Has no side effects and may be called from any thread.
        """
        ...

    def submit(self, id: int, request: Generate) -> None:
        """Queue a request that passed `refusal`. The caller chooses an `id` that is not in use.

        If this raises an exception, the request is at fault and the engine forgets it.
        """
        ...

    def cancel(self, id: int) -> None:
        """Forget a request. The request may have been answered already."""
        ...

    def step(self) -> Results:
        """Run one decode step, or wait briefly for a remote sampler. Return results that came since the last step.

        * Generated: the sampled tokens.
        * Refused: the request cannot be served after all.
        * An exception among the results: an unexpected error that concerns this request alone.

        An exception that `step` raises concerns all requests and ends the engine.
        """
        ...

    def load_weights(self, weights: Weights) -> None:
        """Sample from `weights` from the next step on. Sequences in flight continue. The folder must be on this host.

        Raises WeightsError if the folder holds other weights or another model, FileNotFoundError if it is gone. After
        either error the old weights are still loaded.
        """
        ...

    def logprobs(self, ids: Sequence[int]) -> list[float]:
        """Return the log-probabilities of ids[1:], each given the ids before it, at temperature 1, in nats.

        Computes them with the present weights, as in sampling. `ids` must have at least 2 tokens. No later request
        reuses their keys.
        """
        ...

    def close(self) -> None:
        """End processes and connections. The engine is not used afterwards."""
        ...


def explain_misfit(request: Generate, context_tokens: int, vocabulary: int) -> str | None:
    """Explain why a model with `vocabulary` tokens can never serve a request. Returns None if it can."""
    if not request.prompt or len(request.prompt) % 4 or request.max_tokens < 1 or request.seed < 0:
        return "a request needs a prompt of int32 ids, max_tokens of at least 1 and a seed of at least 0"
    prompt = unpack_ids(request.prompt)
    if len(prompt) + request.max_tokens > context_tokens:
        wanted = f"{len(prompt)} prompt tokens and max_tokens = {request.max_tokens}"
        return f"{wanted} exceed engine.context_tokens = {context_tokens}"
    if not (prompt.min() >= 0 and prompt.max() < vocabulary):
        return f"the prompt has ids outside of the model's {vocabulary} tokens"
    if not COLDEST <= request.temperature < float("inf"):
        return f"temperature must be at least {COLDEST}, is {request.temperature}"
    if not (0 < request.top_p <= 1 and request.top_k >= 0):
        return f"top_p must be in (0, 1] and top_k at least 0, are {request.top_p} and {request.top_k}"
    if "" in request.stop:
        return "an empty stop string would stop everything"
    return None
