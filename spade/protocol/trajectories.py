"""Tokens that a model read and wrote, and the recording of a play."""

from spade.protocol.base import DIGEST_BYTES, Count, Many, Wire
from spade.protocol.programs import Calls


class Trajectory(Wire, frozen=True):
    """The tokens that the model read and wrote in one episode or one design, in order.

    The tokens form one sequence, unless `rewinds` divide them into several (`spade.sequences`).
    """

    ids: bytes
    """Token ids, little-endian int32."""

    spans: Many[int]
    """Lengths of runs of tokens. A run of prompt tokens and a run of sampled tokens alternate, the prompt first."""

    logprobs: bytes
    """Log-probability of each *sampled* token under the distribution that it was really sampled from, little-endian
    float32."""

    versions: Many[tuple[int, int]]
    """Runs (policy version, number of tokens) over the sampled tokens, in order."""

    temperature: float
    """Temperature of the sampling."""

    digests: bytes = b""
    """Digests of the weights that sampled each run, 16 bytes a run. Empty if the engine sent no digests."""

    rewinds: Many[tuple[int, int]] = ()
    """Pairs (at, kept), by rising `at`. Before token `at` was read, the context was cut back to its first `kept`
    tokens."""

    def __post_init__(self) -> None:
        tokens, sampled = sum(self.spans), sum(self.spans[1::2])
        if len(self.ids) != 4 * tokens or len(self.logprobs) != 4 * sampled or min(self.spans, default=0) < 0:
            raise ValueError(
                f"trajectory: {len(self.ids)} id bytes and {len(self.logprobs)} log-probability bytes do not fit "
                f"spans of {tokens} tokens, {sampled} of them sampled"
            )
        if count_covered(self.versions) != sampled:
            raise ValueError("trajectory: the version runs do not cover the sampled tokens")
        check_digests(self.digests, self.versions)
        if not self.temperature > 0:
            raise ValueError(f"trajectory: temperature must be positive, is {self.temperature}")
        _compute_contexts(self.tokens, self.rewinds)

    @property
    def tokens(self) -> int:
        """Return the number of tokens, read and sampled. Each is counted once."""
        return len(self.ids) // 4

    @property
    def contexts(self) -> tuple[int, ...]:
        """Return the number of tokens in each sequence of the trajectory."""
        return _compute_contexts(self.tokens, self.rewinds)

    @property
    def sampled(self) -> int:
        """Return the number of tokens that the model sampled."""
        return len(self.logprobs) // 4


def _compute_contexts(tokens: int, rewinds: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    """Return the context's length before each rewind and at the end. Raises ValueError for an impossible rewind."""
    if not rewinds:
        return (tokens,)
    lengths, begin, length = list[int](), 0, 0
    for at, kept in rewinds:
        length += at - begin
        if not (begin < at < tokens and 0 <= kept < length):
            raise ValueError(
                f"trajectory: the rewind at token {at} of {tokens} cannot cut a context of {length} tokens to {kept}"
            )
        lengths.append(length)
        begin, length = at, kept
    return (*lengths, length + tokens - begin)


def count_covered(versions: tuple[tuple[int, int], ...]) -> int:
    """Count the sampled tokens that version runs cover. Raises ValueError for an empty run."""
    counts = [count for _, count in versions]
    if min(counts, default=1) < 1:
        raise ValueError(f"a version run of a trajectory must cover at least one token, covers {min(counts)}")
    return sum(counts)


def check_digests(digests: bytes, versions: tuple[tuple[int, int], ...]) -> None:
    if digests and len(digests) != DIGEST_BYTES * len(versions):
        raise ValueError(f"{len(digests)} bytes of digests do not fit {len(versions)} version runs")


class Recording(Wire, frozen=True):
    """The actions and answers of a play, from which an audit can run the play again."""

    actions: Many[str]
    """Actions that were sent to the program, in order."""

    answers: bytes
    """Digests of the program's answers to the reset and then to each action (`codec.answer_digest`), 16 bytes each."""

    max_turns: Count
    """Turn limit of the play."""

    calls: Many[Calls] = ()
    """Tool calls that were sent with each action. Empty if no action had any."""

    def __post_init__(self) -> None:
        if self.calls and len(self.calls) != len(self.actions):
            raise ValueError(f"recording: calls of {len(self.calls)} turns do not fit {len(self.actions)} actions")
        if len(self.answers) != DIGEST_BYTES * (len(self.actions) + 1):
            raise ValueError(f"recording: {len(self.answers)} bytes of digests do not fit {len(self.actions)} actions")
