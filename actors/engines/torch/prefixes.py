"""Remembers the tokens of the keys in each cache entry. A request that begins with the same tokens reuses the keys.
Runs on the host."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_COPY_FROM = 8  # tokens: copying a shorter prefix costs more than computing it
_WAIT_FROM = 32  # tokens: for a shorter prefix, waiting a step for its keys does not pay
_FIRST_TOKENS = 256  # token ids of an entry that are allocated at the start


class Placement(NamedTuple):
    """The cache entry chosen for a prompt, and the number of tokens with keys that the prompt can reuse."""

    entry: int
    """Cache entry that the sequence gets."""

    source: int
    """Entry that holds the shared keys. If it differs from `entry`, the keys must be copied."""

    tokens: int
    """Number of leading tokens with stored keys."""

    outdated: int = 0
    """Number of further leading tokens with stored keys of older weights. They are computed again."""


class Prefixes:
    """The token ids of the keys in each of `entries` cache entries. No sequence is longer than `limit` tokens.

    * known (entries,): number of tokens with keys that are stored or being computed
    * filled (entries,): number of tokens with stored keys
    * current (entries,): True if the weights in use computed the keys
    * used (entries,): step of the entry's last write
    """

    def __init__(self, entries: int, limit: int) -> None:
        self._limit = limit
        self._ids = np.zeros((entries, min(_FIRST_TOKENS, limit)), dtype=np.int32)
        self.known = np.zeros(entries, dtype=np.int64)
        self.filled = np.zeros(entries, dtype=np.int64)
        self.current = np.zeros(entries, dtype=np.bool_)
        self.used = np.full(entries, -1, dtype=np.int64)

    def reserve(self, tokens: int) -> None:
        """Make room for sequences of `tokens`."""
        have = self._ids.shape[1]
        if tokens > have:
            want = min(self._limit, 1 << (tokens - 1).bit_length())
            self._ids = np.pad(self._ids, ((0, 0), (0, want - have)))

    def place(self, prompt: NDArray[np.int32], idle: NDArray[np.bool_]) -> Placement | None:
        """Choose an entry for a prompt. `idle` (entries,) is a mask of at least one idle entry.

        Only keys of the weights in use are shared. A prompt that continues an idle entry takes over the entry. Any
        other prompt takes the entry that has been idle longest, so that the next turns of other episodes find their
        entries. Keys shared with any entry, even a busy one, are copied. The last token of a prompt is always computed,
        because its output predicts the next token.

        Returns None if the prompt should wait, because a sequence in flight is computing keys that both share.
        """
        known = self._count_common(prompt)
        common = np.where(self.current, known, 0)
        stored = np.minimum(common, self.filled)
        source = int(stored.argmax())
        tokens = int(stored[source])
        outdated = int(np.minimum(known, self.filled).max()) - tokens
        if tokens and tokens == self.filled[source] and idle[source]:
            return Placement(source, source, tokens, outdated)
        if int(np.minimum(common, self.known).max()) >= tokens + _WAIT_FROM:
            return None
        oldest = self.find_oldest(idle)
        return Placement(oldest, *((source, tokens) if tokens >= _COPY_FROM else (oldest, 0)), outdated)

    def find_oldest(self, among: NDArray[np.bool_]) -> int:
        """Return the entry that has been idle longest. `among` is a mask of at least one entry."""
        entries = np.flatnonzero(among)
        return int(entries[self.used[entries].argmin()])

    def _count_common(self, prompt: NDArray[np.int32]) -> NDArray[np.int64]:
        """Count the leading tokens that each entry shares with the prompt: (entries,).

        Ignores the prompt's last token. Compares the first few tokens of all entries, then twice as many tokens of the
        entries that share the first few, and so on.
        """
        common = np.zeros(len(self.filled), dtype=np.int64)
        width = min(len(prompt) - 1, self._ids.shape[1])
        alike = np.flatnonzero(self.known)
        first, end = 0, _COPY_FROM
        while first < width and len(alike):
            end = min(end, width)
            differs = self._ids[alike, first:end] != prompt[first:end]
            ends = differs.any(axis=1)
            common[alike] = first + np.where(ends, differs.argmax(axis=1), end - first)
            alike = alike[~ends]
            first, end = end, 2 * end
        return common

    def begin(self, placement: Placement, prompt: NDArray[np.int32]) -> None:
        """Give the entry to the prompt. Its first `placement.tokens` count as stored."""
        entry, tokens = placement.entry, placement.tokens
        self.reserve(len(prompt))
        self._ids[entry, : len(prompt)] = prompt
        self.known[entry] = len(prompt)
        self.filled[entry] = tokens
        self.current[entry] = True

    def end(self, entry: int) -> None:
        """End the entry's sequence. Its stored keys stay, and no further keys are computed."""
        self.known[entry] = self.filled[entry]

    def evict(self, entry: int) -> None:
        """Drop the entry's keys."""
        self.known[entry] = self.filled[entry] = 0
        self.used[entry] = -1

    def forget(self) -> None:
        """Stop sharing stored keys, because the weights changed. Sequences in flight continue with their keys."""
        self.current[:] = False

    def write(self, entry: NDArray[np.int64], position: NDArray[np.int64], ids: NDArray[np.int64], step: int) -> None:
        """Record the tokens of the keys stored in this step, in the order of their positions."""
        self._ids[entry, position] = ids
        self.filled[entry] = position + 1
        self.known[entry] = np.maximum(self.known[entry], position + 1)
        self.used[entry] = step
