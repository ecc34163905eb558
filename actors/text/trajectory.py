"""Token accounting of one trajectory: what the model read and what it sampled, in order, and nothing tokenised twice.

Pure: no I/O and no clock. A turn is

    builder.rewind(kept); builder.read(unread ids); builder.sampled(generate(builder.ids))
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from spade.codec import pack_ids, unpack_ids
from spade.protocol import DIGEST_BYTES, Generated, Trajectory

Key = TypeVar("Key", bound=Hashable)


class TrajectoryBuilder:
    """Grows by the tokens read and sampled; `ids` are the next prompt, byte for byte."""

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
        """The context so far, little-endian int32: all tokens, but those that a rewind took out of it."""
        return bytes(self._context)

    @property
    def tokens(self) -> int:
        """Tokens of the context."""
        return len(self._context) // 4

    def rewind(self, kept: int) -> None:
        """Cut the context back to its first `kept` tokens, of which it has as many or more; a token is read then."""
        if kept < self.tokens:
            self._rewinds.append((len(self._ids) // 4, kept))
            del self._context[4 * kept :]

    def read(self, ids: Sequence[int]) -> None:
        """Tokens the model is given."""
        self._extend(0, pack_ids(list(ids)))

    def sampled(self, generated: Generated) -> None:
        """Tokens the model sampled, with their log-probabilities and versions as the engine recorded them.

        Tokens of no version are not the policy's: they count as read, so that nothing of them is trained on.
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
        """The record of all of it."""
        versions = tuple((version, count) for (version, _), count in self._runs)
        digests = [digest for (_, digest), _ in self._runs]
        # One run without a digest among others with theirs has the digest of nothing.
        whole = b"".join(digest.ljust(DIGEST_BYTES, b"\0") for digest in digests) if any(digests) else b""
        spans = tuple(self._spans)
        logprobs, rewinds = bytes(self._logprobs), tuple(self._rewinds)
        return Trajectory(bytes(self._ids), spans, logprobs, versions, self._temperature, whole, rewinds)

    def _extend(self, sampled: int, ids: bytes) -> None:
        """Lengthen the last span, or begin one of the other kind."""
        self._context += ids
        self._ids += ids
        tokens = len(ids) // 4
        if len(self._spans) % 2 == sampled and tokens:
            self._spans.append(0)
        self._spans[-1] += tokens


def merge_runs(runs: Iterable[tuple[Key, int]]) -> tuple[tuple[Key, int], ...]:
    """Runs (of what, count) with neighbours of the same made one and empty runs left out."""
    merged: list[tuple[Key, int]] = []
    for key, count in runs:
        if not count:
            continue
        if merged and merged[-1][0] == key:
            merged[-1] = (key, merged[-1][1] + count)
        else:
            merged.append((key, count))
    return tuple(merged)
