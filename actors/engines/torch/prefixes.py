"""Tokens that each slot holds keys for: a request that begins with the same ones need not compute them. On the host."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_COPY_FROM = 8  # tokens: a shorter prefix costs more to copy than to compute
_WAIT_FROM = 32  # tokens: for a shorter one it is not worth a step to wait until it is there
_FIRST_TOKENS = 256


class Placement(NamedTuple):
    """Put a sequence in `slot`. Its first `tokens` are there, or to be copied from `source` if that is another slot."""

    slot: int
    source: int
    tokens: int


class Prefixes:
    """Token ids of `slots` slots; `limit` bounds a sequence.

    known     (slots,) how many tokens of its sequence are known, so that their keys are there or being computed
    filled    (slots,) how many of them have their keys stored
    current   (slots,) whether the weights in use computed them
    used      (slots,) when the slot was last written, in steps
    """

    def __init__(self, slots: int, limit: int) -> None:
        self._limit = limit
        self._ids = np.zeros((slots, min(_FIRST_TOKENS, limit)), dtype=np.int32)
        self.known = np.zeros(slots, dtype=np.int64)
        self.filled = np.zeros(slots, dtype=np.int64)
        self.current = np.zeros(slots, dtype=np.bool_)
        self.used = np.full(slots, -1, dtype=np.int64)

    def reserve(self, tokens: int) -> None:
        """Make room for sequences of `tokens`."""
        have = self._ids.shape[1]
        if tokens > have:
            want = min(self._limit, 1 << (tokens - 1).bit_length())
            self._ids = np.pad(self._ids, ((0, 0), (0, want - have)))

    def place(self, prompt: NDArray[np.int32], idle: Sequence[int]) -> Placement | None:
        """Where a prompt goes: `idle` must not be empty. Only keys of the weights in use are shared.

        A slot of which the prompt is a continuation is taken over. Otherwise the slot idle for longest is, so that the
        next turns of other episodes find theirs; what the prompt shares with any slot, busy ones too, is copied there.
        The last token of a prompt is always computed, for what follows it. None: it pays to wait for keys that are
        being computed for another.
        """
        common = self._common(prompt)
        stored = np.minimum(common, self.filled)
        source = int(stored.argmax())
        tokens = int(stored[source])
        if tokens and tokens == self.filled[source] and source in idle:
            return Placement(source, source, tokens)
        if int(np.minimum(common, self.known).max()) >= tokens + _WAIT_FROM:
            return None
        oldest = min(idle, key=lambda slot: int(self.used[slot]))
        return Placement(oldest, source, tokens) if tokens >= _COPY_FROM else Placement(oldest, oldest, 0)

    def _common(self, prompt: NDArray[np.int32]) -> NDArray[np.int64]:
        """(slots,) how many leading tokens of the prompt, but its last, each slot's row of ids repeats."""
        width = min(len(prompt) - 1, self._ids.shape[1])
        if width == 0:
            return np.zeros(len(self.filled), dtype=np.int64)
        differs = self._ids[:, :width] != prompt[:width]
        return np.where(self.current, np.where(differs.any(axis=1), differs.argmax(axis=1), width), 0)

    def begin(self, placement: Placement, prompt: NDArray[np.int32]) -> None:
        """Give the slot to the prompt: its first `placement.tokens` count as stored."""
        slot, _, tokens = placement
        self.reserve(len(prompt))
        self._ids[slot, : len(prompt)] = prompt
        self.known[slot] = len(prompt)
        self.filled[slot] = tokens
        self.current[slot] = True

    def end(self, slot: int) -> None:
        """The slot's sequence has ended: no further keys are computed; the stored ones stay."""
        self.known[slot] = self.filled[slot]

    def evict(self, slot: int) -> None:
        """The slot's keys are gone."""
        self.known[slot] = self.filled[slot] = 0
        self.used[slot] = -1

    def forget(self) -> None:
        """The weights changed: stored keys are no longer shared. Sequences in flight go on with theirs."""
        self.current[:] = False

    def write(self, slot: NDArray[np.int64], position: NDArray[np.int64], ids: NDArray[np.int64], step: int) -> None:
        """Tokens whose keys were stored in this step, in the order of their positions."""
        self._ids[slot, position] = ids
        self.filled[slot] = position + 1
        self.known[slot] = np.maximum(self.known[slot], position + 1)
        self.used[slot] = step
