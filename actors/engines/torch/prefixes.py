"""Tokens whose keys each entry holds: a request that begins with the same ones need not compute them. On the host."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_COPY_FROM = 8  # tokens: a shorter prefix costs more to copy than to compute
_WAIT_FROM = 32  # tokens: for a shorter one it is not worth a step to wait until it is there
_FIRST_TOKENS = 256


class Placement(NamedTuple):
    """The `entry` of a sequence. Its first `tokens` are there, or to be copied from `source` if that is another."""

    entry: int
    source: int
    tokens: int


class Prefixes:
    """Token ids of `entries` entries; `limit` bounds a sequence.

    known     (entries,) how many tokens of its sequence are known, so that their keys are there or being computed
    filled    (entries,) how many of them have their keys stored
    current   (entries,) whether the weights in use computed them
    used      (entries,) when the entry was last written, in steps
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

    def place(self, prompt: NDArray[np.int32], idle: Sequence[int]) -> Placement | None:
        """Where a prompt goes: `idle` must not be empty. Only keys of the weights in use are shared.

        A prompt that continues an entry takes it over. Another takes the entry that has been idle longest, so that the
        next turns of other episodes find theirs; the keys that it shares with any entry, a busy one too, are copied
        there. The last token of a prompt is always computed, for the sake of the next. None: it pays to wait for keys
        that are being computed for another prompt.
        """
        common = self._common(prompt)
        stored = np.minimum(common, self.filled)
        source = int(stored.argmax())
        tokens = int(stored[source])
        if tokens and tokens == self.filled[source] and source in idle:
            return Placement(source, source, tokens)
        if int(np.minimum(common, self.known).max()) >= tokens + _WAIT_FROM:
            return None
        oldest = min(idle, key=lambda entry: int(self.used[entry]))
        return Placement(oldest, source, tokens) if tokens >= _COPY_FROM else Placement(oldest, oldest, 0)

    def _common(self, prompt: NDArray[np.int32]) -> NDArray[np.int64]:
        """(entries,) number of leading tokens of the prompt, without its last, that each entry has."""
        width = min(len(prompt) - 1, self._ids.shape[1])
        if width == 0:
            return np.zeros(len(self.filled), dtype=np.int64)
        differs = self._ids[:, :width] != prompt[:width]
        return np.where(self.current, np.where(differs.any(axis=1), differs.argmax(axis=1), width), 0)

    def begin(self, placement: Placement, prompt: NDArray[np.int32]) -> None:
        """Give the entry to the prompt: its first `placement.tokens` count as stored."""
        entry, _, tokens = placement
        self.reserve(len(prompt))
        self._ids[entry, : len(prompt)] = prompt
        self.known[entry] = len(prompt)
        self.filled[entry] = tokens
        self.current[entry] = True

    def end(self, entry: int) -> None:
        """The entry's sequence has ended: no further keys are computed; the stored ones stay."""
        self.known[entry] = self.filled[entry]

    def evict(self, entry: int) -> None:
        """The entry's keys are gone."""
        self.known[entry] = self.filled[entry] = 0
        self.used[entry] = -1

    def forget(self) -> None:
        """The weights changed: stored keys are no longer shared. Sequences in flight go on with theirs."""
        self.current[:] = False

    def write(self, entry: NDArray[np.int64], position: NDArray[np.int64], ids: NDArray[np.int64], step: int) -> None:
        """Tokens whose keys were stored in this step, in the order of their positions."""
        self._ids[entry, position] = ids
        self.filled[entry] = position + 1
        self.known[entry] = np.maximum(self.known[entry], position + 1)
        self.used[entry] = step
