"""Messages of engines.

Agents, designers, the evaluator and gateways sample from engines. Engines fetch weights from the learner and from each
other, and report to the replay service.
"""

from typing import Annotated

from msgspec import Meta

from spade.protocol.base import MOST_HELD, MOST_STOPS, Finish, Many, Name, Request, Wire
from spade.protocol.session import Done
from spade.protocol.trajectories import check_digests, count_covered


class Generated(Wire, frozen=True):
    """The sampled continuation of a `Generate`.

    An external server gives no versions, and may give no log-probabilities. These fields are then empty.
    """

    ids: bytes
    """Token ids, little-endian int32, with the end-of-turn token."""

    logprobs: bytes
    """Log-probability of each token, little-endian float32."""

    versions: Many[tuple[int, int]]
    """Runs (policy version, number of tokens), in order."""

    finish: Finish
    """The reason why sampling ended: "stop" for a token or string that ends it, "length" for `max_tokens`."""

    digests: bytes = b""
    """Digests of the weights that sampled each run, 16 bytes a run, or empty."""

    def __post_init__(self) -> None:
        ours = count_covered(self.versions) * 4 == len(self.ids) == len(self.logprobs)
        if not (ours or (not self.versions and len(self.logprobs) in (0, len(self.ids)))):
            raise ValueError("generated: ids, log-probabilities and version runs differ in length")
        check_digests(self.digests, self.versions)


class Overdue(Wire, frozen=True):
    """The deadline of a `Generate` passed."""

    waited_s: float
    """Seconds that the request waited in the queue."""

    sampled_s: float
    """Seconds that the engine spent sampling."""


class Generate(Request[Generated | Overdue], frozen=True):
    """Sample a continuation. The reply is `Refused` if the request can never be served.

    The engine samples from softmax(logits / `temperature`), restricted first by `top_k` and then by `top_p`.
    """

    prompt: bytes
    """Token ids, little-endian int32."""

    max_tokens: int
    """Number of tokens after which sampling ends. An end-of-turn token of the model also ends it."""

    temperature: float
    """Divisor of the logits."""

    seed: int
    """Seed of the sampling."""

    top_p: float = 1.0
    """Keep the fewest of the likeliest tokens that together hold this probability."""

    top_k: int = 0
    """Keep this number of likeliest tokens. 0 keeps all."""

    stop: Annotated[tuple[Name, ...], Meta(max_length=MOST_STOPS)] = ()
    """Strings that end sampling. The answer includes the token that completes a string."""

    deadline_s: float = 0.0
    """Seconds after its arrival when the engine gives the request up. 0 means never."""

    name: Name = ""
    """Name by which the sender can cancel the request (`GiveUp`)."""


class GiveUp(Request[Done], frozen=True):
    """Tell an engine to forget the `Generate` of this name, if it is still there. Its sender no longer waits."""

    name: Name
    """Name of the `Generate`."""


class Serving(Request[Done], frozen=True):
    """Report that an engine samples from these weights from now on.

    The reply is `Refused` if the weights were never published.
    """

    version: int
    """Policy version of the weights."""

    digest: Name
    """Digest of the weights."""


class HoldWeights(Request[Done], frozen=True):
    """Report all weights that an engine reads from folders. The report replaces the engine's earlier one.

    The reply is `Refused` if the learner has retired one of the weights. It may delete their folder at any time.
    """

    digests: Annotated[tuple[Name, ...], Meta(max_length=MOST_HELD)]
    """Digests of the weights."""


class WeightsPart(Wire, frozen=True):
    """A part of a file of weights."""

    data: bytes
    """Bytes of the file from the requested offset. Empty if the replying engine has not downloaded them yet."""

    size: int
    """Size of the whole file in bytes."""

    lacking: bytes = b""
    """Bit i (little-endian) is set if the replying engine has not downloaded part i of the file yet. A part has the
    size that engines request. Empty if the file is complete."""


class GetWeights(Request[WeightsPart], frozen=True):
    """Ask the learner or an engine for a part of a file of published weights.

    The reply is `Refused` if the learner has retired the weights, or if the engine does not have them.
    """

    digest: Name
    """Digest of the weights."""

    file: Name
    """Name of the file."""

    offset: int
    """First byte of the part."""

    count: int
    """Greatest number of bytes to return."""
