"""Engines: agents, designers and gateways have them sample, and they fetch weights from the learner."""

from typing import Annotated

from msgspec import Meta

from spade.protocol.base import MOST_HELD, MOST_STOPS, Finish, Many, Name, Request, Wire
from spade.protocol.session import Done
from spade.protocol.trajectories import check_digests, covered


class Generated(Wire, frozen=True):
    """ids: int32 bytes, the end-of-turn token included; logprobs: float32 bytes; versions: runs (version, count).

    Tokens of an endpoint have no versions, and log-probabilities only if the endpoint gave them.
    digests: of the weights that sampled each run, 16 bytes a run, or empty.
    """

    ids: bytes
    logprobs: bytes
    versions: Many[tuple[int, int]]
    finish: Finish
    digests: bytes = b""

    def __post_init__(self) -> None:
        ours = covered(self.versions) * 4 == len(self.ids) == len(self.logprobs)
        if not (ours or (not self.versions and len(self.logprobs) in (0, len(self.ids)))):
            raise ValueError("generated: ids, log-probabilities and version runs differ in length")
        check_digests(self.digests, self.versions)


class Overdue(Wire, frozen=True):
    """The deadline of a Generate passed after `waited_s` in the queue and `sampled_s` being sampled."""

    waited_s: float
    sampled_s: float


class Generate(Request[Generated | Overdue], frozen=True):
    """Sample a continuation. Refused: it can never be served.

    prompt: little-endian int32 token ids. Sampling ends with an end-of-turn token of the model, with the token that
    completes a string of `stop` (the answer includes either), or after max_tokens. The distribution is softmax(logits /
    temperature), cut to the `top_k` likeliest tokens (0: all), then to the fewest of these that hold `top_p` of the
    probability. The engine gives a request up that is not over within `deadline_s` of its arrival (0: never).
    `name` is by what its sender may give it up.
    """

    prompt: bytes
    max_tokens: int
    temperature: float
    seed: int
    top_p: float = 1.0
    top_k: int = 0
    stop: Annotated[tuple[Name, ...], Meta(max_length=MOST_STOPS)] = ()
    deadline_s: float = 0.0
    name: Name = ""


class GiveUp(Request[Done], frozen=True):
    """The sender no longer waits for its Generate of this name: forget it, if it is still there."""

    name: Name


class Serving(Request[Done], frozen=True):
    """An engine samples from these weights from now on. Refused: they were never published."""

    version: int
    digest: Name


class HoldWeights(Request[Done], frozen=True):
    """An engine reads the learner's folders of these weights, and of no others, until it says so again.

    Refused: one of them is retired, and may be deleted at any time.
    """

    digests: Annotated[tuple[Name, ...], Meta(max_length=MOST_HELD)]


class WeightsPart(Wire, frozen=True):
    """`data` begins at the offset that was asked for; `size` is that of the whole file, bytes.

    lacking: of an engine's unfinished copy the parts that are not there yet, little-endian; bit i is for the i-th part
    of the size that engines ask for. Empty: nothing is lacking. What is lacking comes without data.
    """

    data: bytes
    size: int
    lacking: bytes = b""


class GetWeights(Request[WeightsPart], frozen=True):
    """Ask the learner or an engine for up to `count` bytes of a file of published weights, from `offset`.

    Refused: the learner has retired them; the engine does not have them.
    """

    digest: Name
    file: Name
    offset: int
    count: int
