"""Tokens that a model read and wrote, and the recording of a play."""

from spade.protocol.base import DIGEST_BYTES, Count, Many, Wire
from spade.protocol.programs import Calls


class Trajectory(Wire, frozen=True):
    """The tokens that the model read and wrote in one episode (or one design), in order.

    The tokens are one sequence, unless `rewinds` make several of them (`spade.sequences`).

    ids       little-endian int32, tokens
    spans     lengths of runs of tokens, read and sampled in turn, the first one read
    logprobs  little-endian float32, *sampled* tokens; log-probability under the distribution really sampled from
    versions  runs (policy version, count) over the sampled tokens, in order
    digests   of the weights that sampled each run, 16 bytes a run; empty where the engine gave none
    rewinds   (at, kept), by rising `at`: before token `at` was read, the context was cut back to its first `kept`
    """

    ids: bytes
    spans: Many[int]
    logprobs: bytes
    versions: Many[tuple[int, int]]
    temperature: float
    digests: bytes = b""
    rewinds: Many[tuple[int, int]] = ()

    def __post_init__(self) -> None:
        tokens, sampled = sum(self.spans), sum(self.spans[1::2])
        if len(self.ids) != 4 * tokens or len(self.logprobs) != 4 * sampled or min(self.spans, default=0) < 0:
            raise ValueError(
                f"trajectory: {len(self.ids)} id bytes and {len(self.logprobs)} log-probability bytes do not fit "
                f"spans of {tokens} tokens, {sampled} of them sampled"
            )
        if covered(self.versions) != sampled:
            raise ValueError("trajectory: the version runs do not cover the sampled tokens")
        check_digests(self.digests, self.versions)
        if not self.temperature > 0:
            raise ValueError(f"trajectory: temperature must be positive, is {self.temperature}")
        _contexts(self.tokens, self.rewinds)

    @property
    def tokens(self) -> int:
        """All tokens, read and sampled, each counted once."""
        return len(self.ids) // 4

    @property
    def contexts(self) -> tuple[int, ...]:
        """Tokens of each of its sequences."""
        return _contexts(self.tokens, self.rewinds)

    @property
    def sampled(self) -> int:
        """Tokens the model sampled."""
        return len(self.logprobs) // 4


def _contexts(tokens: int, rewinds: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    """Lengths of the context before each rewind and at the end. Raises ValueError for a rewind that cuts nothing."""
    lengths, begin, length = list[int](), 0, 0
    for at, kept in rewinds:
        length += at - begin
        if not (begin < at < tokens and 0 <= kept < length):
            raise ValueError(f"trajectory: no rewind of {length} tokens to {kept} can be at token {at} of {tokens}")
        lengths.append(length)
        begin, length = at, kept
    return (*lengths, length + tokens - begin)


def covered(versions: tuple[tuple[int, int], ...]) -> int:
    """The sampled tokens that version runs cover. Raises ValueError for a run of none."""
    counts = [count for _, count in versions]
    if min(counts, default=1) < 1:
        raise ValueError(f"a version run of a trajectory must cover a token or more, is {min(counts)}")
    return sum(counts)


def check_digests(digests: bytes, versions: tuple[tuple[int, int], ...]) -> None:
    if digests and len(digests) != DIGEST_BYTES * len(versions):
        raise ValueError(f"{len(digests)} bytes of digests do not fit {len(versions)} version runs")


class Recording(Wire, frozen=True):
    """The course of a play, from which an audit runs it again.

    actions    the actions that the program was sent, in order
    calls      those sent with each action; empty where no action has any
    answers    digests (`codec.answer_digest`) of its answers, 16 bytes each: to the reset, then to each action
    max_turns  turns that the program was granted
    """

    actions: Many[str]
    answers: bytes
    max_turns: Count
    calls: Many[Calls] = ()

    def __post_init__(self) -> None:
        if self.calls and len(self.calls) != len(self.actions):
            raise ValueError(f"recording: calls of {len(self.calls)} turns do not fit {len(self.actions)} actions")
        if len(self.answers) != DIGEST_BYTES * (len(self.actions) + 1):
            raise ValueError(f"recording: {len(self.answers)} bytes of digests do not fit {len(self.actions)} actions")
