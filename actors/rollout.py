"""Token accounting of one trajectory: what the model read and what it sampled, in order, and nothing tokenised twice.

Pure: no I/O and no clock. The calling loop is

    builder.read(prompt ids); while builder.room(...): builder.sampled(generate(builder.ids)); builder.read(delta ids)
"""

from collections.abc import Iterable, Sequence

from spade.codec import pack_ids, unpack_ids
from spade.protocol import Generated, Trajectory


class TrajectoryBuilder:
    """Grows by what is read and what is sampled; the ids so far are the next prompt, byte for byte."""

    def __init__(self, temperature: float) -> None:
        self._temperature = temperature
        self._ids = bytearray()
        self._spans = [0]
        self._logprobs = bytearray()
        self._versions: tuple[tuple[int, int], ...] = ()

    @property
    def ids(self) -> bytes:
        """All tokens so far, little-endian int32."""
        return bytes(self._ids)

    @property
    def tokens(self) -> int:
        """All tokens so far, read and sampled."""
        return len(self._ids) // 4

    def room(self, max_tokens: int, context_tokens: int) -> bool:
        """True where a turn of `max_tokens` still fits a context of `context_tokens`."""
        return self.tokens + max_tokens <= context_tokens

    def read(self, ids: Sequence[int]) -> None:
        """Tokens the model is given."""
        self._ids += pack_ids(list(ids))
        self._extend(0, len(ids))

    def sampled(self, generated: Generated) -> None:
        """Tokens the model sampled, with their log-probabilities and versions as the engine recorded them.

        Tokens of no version are not the policy's: they count as read, so that nothing of them is trained on.
        """
        if not generated.versions:
            self.read(unpack_ids(generated.ids).tolist())
            return
        self._ids += generated.ids
        self._extend(1, len(generated.ids) // 4)
        self._logprobs += generated.logprobs
        self._versions = merge_runs((*self._versions, *generated.versions))

    def trajectory(self) -> Trajectory:
        """The record of all of it."""
        return Trajectory(self.ids, tuple(self._spans), bytes(self._logprobs), self._versions, self._temperature)

    def _extend(self, sampled: int, tokens: int) -> None:
        """Lengthen the last span, or begin one of the other kind."""
        if len(self._spans) % 2 == sampled and tokens:
            self._spans.append(0)
        self._spans[-1] += tokens


def merge_runs(runs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Runs (version, count) with neighbours of one version made one and empty runs left out."""
    merged: list[tuple[int, int]] = []
    for version, count in runs:
        if not count:
            continue
        if merged and merged[-1][0] == version:
            merged[-1] = (version, merged[-1][1] + count)
        else:
            merged.append((version, count))
    return tuple(merged)


def episode_return(rewards: Sequence[float], terminated: bool) -> float:
    """The reward of the last step clipped to [-1, 1] if the episode terminated, else 0."""
    return max(-1.0, min(1.0, rewards[-1])) if terminated and rewards else 0.0
