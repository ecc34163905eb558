"""Token accounting of one trajectory: the tokens that the model read and sampled, in order. Nothing is tokenised twice.

Pure: no I/O and no clock. One turn is

    builder.rewind(kept); builder.read(unread ids); builder.sampled(generate(builder.ids))
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from spade.codec import pack_ids, unpack_ids
from spade.protocol import DIGEST_BYTES, Generated, Trajectory

Key = TypeVar("Key", bound=Hashable)


class TrajectoryBuilder:
    """Collects the tokens that the model reads and samples. The next prompt is exactly `ids`."""

    def __init__(self, temperature: float) -> None:
        self._temperature = temperature
        self._context = bytearray()
        self._ids = bytearray()
        self._rewinds: list[tuple[int, int]] = []
        self._spans = [0]
        self._logprobs = bytearray()
        self._runs: tuple[tuple[tuple[int, bytes], int], ...] = ()  # ((version, digest), tokens)

    @property
    def ids(self) -> bytes:
        """Return the context so far, little-endian int32: all tokens except those removed by a rewind."""
        return bytes(self._context)

    @property
    def tokens(self) -> int:
        """Return the number of tokens in the context."""
        return len(self._context) // 4

    def rewind(self, kept: int) -> None:
        """Cut the context back to its first `kept` tokens, if it is longer. New tokens must be read afterwards."""
        if kept < self.tokens:
            self._rewinds.append((len(self._ids) // 4, kept))
            del self._context[4 * kept :]

    def read(self, ids: Sequence[int]) -> None:
        """Append tokens that the model reads."""
        self._extend(0, pack_ids(list(ids)))

    def sampled(self, generated: Generated) -> None:
        """Append tokens that the model sampled, with their log-probabilities and versions as the engine recorded them.

        Tokens without a version were not sampled by the policy. They count as read, so they are never trained on.
        """
        if not generated.versions:
            self.read(unpack_ids(generated.ids).tolist())
            return
        self._extend(1, generated.ids)
        self._logprobs += generated.logprobs
        digests = [generated.digests[at : at + DIGEST_BYTES] for at in range(0, len(generated.digests), DIGEST_BYTES)]
        found = zip(generated.versions, digests or [b""] * len(generated.versions), strict=True)
        self._runs = merge_runs((*self._runs, *(((version, digest), count) for (version, count), digest in found)))

    def trajectory(self) -> Trajectory:
        """Return the record of the whole trajectory."""
        versions = tuple((version, count) for (version, _), count in self._runs)
        digests = [digest for (_, digest), _ in self._runs]
        # A run without a digest among runs with digests gets a digest of zeros.
        whole = b"".join(digest.ljust(DIGEST_BYTES, b"\0") for digest in digests) if any(digests) else b""
        spans = tuple(self._spans)
        logprobs, rewinds = bytes(self._logprobs), tuple(self._rewinds)
        return Trajectory(bytes(self._ids), spans, logprobs, versions, self._temperature, whole, rewinds)

    def _extend(self, sampled: int, ids: bytes) -> None:
        """Append tokens to the last span, or begin a new span if the last one is of the other kind."""
        self._context += ids
        self._ids += ids
        tokens = len(ids) // 4
        if len(self._spans) % 2 == sampled and tokens:
            self._spans.append(0)
        self._spans[-1] += tokens


def merge_runs(runs: Iterable[tuple[Key, int]]) -> tuple[tuple[Key, int], ...]:
    """Merge neighbouring runs (key, count) with equal keys. Leave out empty runs."""
    merged: list[tuple[Key, int]] = []
    for key, count in runs:
        if not count:
            continue
        if merged and merged[-1][0] == key:
            merged[-1] = (key, merged[-1][1] + count)
        else:
            merged.append((key, count))
    return tuple(merged)
