"""The interface of every engine, and the requests that none can serve.

An engine is driven by one thread; nothing in it waits.
"""

from collections.abc import Sequence
from typing import Protocol

from spade.codec import unpack_ids
from spade.config.engine_kinds import COLDEST
from spade.protocol import Generate, Generated, Refused, Weights

Result = Generated | Refused | Exception
Results = Sequence[tuple[int, Result]]


class Engine(Protocol):
    """Batched sampling with continuous admission: requests come and go between two decode steps."""

    version: int  # policy version of the weights in use; 0 if they were never published

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

        An exception is that request's fault; the engine then forgets the request.
        """
        ...

    def cancel(self, id: int) -> None:
        """Forget a request, which may have been answered already."""
        ...

    def step(self) -> Results:
        """One decode step, or a short wait for a remote sampler. Returns the requests that ended since the last.

        Refused: the request cannot be served after all. An exception: an unforeseen error of that request alone.
        An error that `step` raises concerns all requests and ends the engine.
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
        """End processes and connections. The engine is not used afterwards."""
        ...


def unfit(request: Generate, context_tokens: int, vocabulary: int) -> str | None:
    """Why a request can never be served by a model of `vocabulary` tokens, None if it can."""
    if not request.prompt or len(request.prompt) % 4 or request.max_tokens < 1 or request.seed < 0:
        return "a request needs a prompt of int32 ids, max_tokens of at least 1 and a seed of at least 0"
    prompt = unpack_ids(request.prompt)
    if len(prompt) + request.max_tokens > context_tokens:
        asked = f"{len(prompt)} prompt tokens and max_tokens = {request.max_tokens}"
        return f"{asked} exceed engine.context_tokens = {context_tokens}"
    if not (prompt.min() >= 0 and prompt.max() < vocabulary):
        return f"the prompt has ids outside of the model's {vocabulary} tokens"
    if not COLDEST <= request.temperature < float("inf"):
        return f"temperature must be at least {COLDEST}, is {request.temperature}"
    if not (0 < request.top_p <= 1 and request.top_k >= 0):
        return f"top_p must be in (0, 1] and top_k at least 0, are {request.top_p} and {request.top_k}"
    if "" in request.stop:
        return "an empty stop string would stop everything"
    return None
