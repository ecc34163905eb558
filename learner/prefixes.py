"""Order, cut and lay out token sequences so that a shared beginning is computed once. Pure.

In lexicographic order, no earlier sequence shares more with a sequence than its predecessor does. So a packed row has
of each sequence only the tokens after the beginning that it shares with its predecessor.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Counts = NDArray[np.int64]

LEAST = 16  # Shared beginnings of fewer tokens are computed again, because one more call of attention costs more.
JOINED = 8  # Copying the keys of this many tokens of a predecessor costs as much as computing one token.


def sort_lexicographic(sequences: Sequence[Ids]) -> list[int]:
    """Return the indices of the sequences in lexicographic order. Equal sequences keep their order."""
    keys = [ids.astype(">u4").tobytes() for ids in sequences]
    return sorted(range(len(keys)), key=keys.__getitem__)


def count_shared(ordered: Sequence[Ids]) -> Counts:
    """Return how many first tokens each sequence shares with its predecessor. Fewer than LEAST count as 0."""
    shared = np.zeros(len(ordered), np.int64)
    for index in range(1, len(ordered)):
        before, ids = ordered[index - 1], ordered[index]
        least = min(len(before), len(ids))
        different = np.flatnonzero(before[:least] != ids[:least])
        common = int(different[0]) if len(different) else least
        shared[index] = common if common >= LEAST else 0
    return shared


def cut(lengths: Counts, shared: Counts, limit: int) -> list[slice]:
    """Cut ordered sequences into as few runs of at most `limit` tokens as possible.

    A token that is computed counts 1. A token that is shared with the predecessor counts 1 / JOINED, but 1 in the first
    sequence of a run. Among the cuts with the fewest runs, return one with the fewest tokens in all. A sequence longer
    than `limit` is a run by itself.
    """
    count, least = len(lengths), 0
    shared = shared - shared // JOINED
    before = np.cumsum([0, *(lengths - shared)])  # tokens before each sequence, if all were one run
    again = np.append(shared, 0) - before  # tokens of a run: `before` at its end + `again` at its beginning
    runs, tokens, begins = (np.zeros(count + 1, np.int64) for _ in range(3))
    for end in range(1, count + 1):
        while least < end - 1 and before[end] + again[least] > limit:
            least += 1
        fewest = least + int(np.searchsorted(runs[least:end], runs[least], side="right"))
        begin = least + int(np.argmin(tokens[least:fewest] + again[least:fewest]))
        runs[end], tokens[end], begins[end] = runs[begin] + 1, tokens[begin] + again[begin] + before[end], begin
    slices, end = list[slice](), count
    while end:
        slices.append(slice(int(begins[end]), end))
        end = int(begins[end])
    return slices[::-1]


def find_even_limit(lengths: Counts, shared: Counts, limit: int, ranks: int) -> int:
    """Return the smallest limit of tokens with which no rank computes more runs than with `limit`."""

    def rounds(limit: int) -> int:
        return -(-len(cut(lengths, shared, limit)) // ranks)

    most = rounds(limit)
    return bisect_left(range(limit), True, lo=1, key=lambda lower: rounds(lower) <= most)


class Layout(NamedTuple):
    """Sequences in one packed row. The row consists of segments. Several sequences may continue the same segment."""

    ids: NDArray[np.int64]
    """The tokens of the row: (tokens,)."""
    positions: NDArray[np.int64]
    """The position of each token in the sequences that have it, from 0: (tokens,)."""
    lengths: tuple[int, ...]
    """The number of tokens of each segment, in the order of the row."""
    parents: tuple[int, ...]
    """For each segment, the earlier segment that it continues, or -1 if sequences begin with this segment."""
    places: list[NDArray[np.int64]]
    """For each sequence, the index in the row of each of its tokens."""


def join_layout(sequences: Sequence[Ids], shared: Counts) -> Layout:
    """Lay out ordered sequences in one row. Leave out the tokens that a sequence shares with its predecessor.

    A new segment begins at the first token in which two sequences differ. The first sequence has no predecessor, so
    `shared[0]` is unused.
    """
    parts, positions, places = list[Ids](), list[Counts](), list[Counts]()
    before = dict[int, int]()  # for each place where a segment begins, the place of the token before it
    tokens = 0
    for ids, kept in zip(sequences, (0, *shared[1:]), strict=True):
        last = int(places[-1][kept - 1]) if kept else -1
        if kept < len(ids) and (not kept or last + 1 < tokens):
            before[tokens] = last
            if kept:
                before.setdefault(last + 1, last)
        fresh = np.arange(tokens, tokens + len(ids) - kept)
        places.append(np.concatenate([places[-1][:kept], fresh]) if kept else fresh)
        parts.append(ids[kept:])
        positions.append(np.arange(kept, len(ids)))
        tokens += len(fresh)
    begins = sorted(before)
    return Layout(
        ids=np.concatenate(parts).astype(np.int64),
        positions=np.concatenate(positions),
        lengths=tuple(np.diff([*begins, tokens]).tolist()),
        parents=tuple(bisect_left(begins, before[begin] + 1) - 1 for begin in begins),
        places=places,
    )
