"""The plan of one forward of the torch engine: the tokens of all sequences, and the groups that attend together.

The new tokens of all sequences are *packed* one after another as a batch of one, so linear layers never see padding.
Attention runs in *groups* of sequences of similar size. Only these groups are padded.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from actors.engines.torch.buddy import TokenExtent
from actors.engines.torch.flash import FlashCall


class TokenChunk(NamedTuple):
    """New tokens of one sequence."""

    entry: int
    """Cache entry of the sequence."""

    extent: TokenExtent
    """Extent that stores the sequence's keys and values."""

    start: int
    """Position of the first new token."""

    size: int
    """Number of new tokens."""

    @property
    def end(self) -> int:
        return self.start + self.size


def group_chunks(chunks: Sequence[TokenChunk], spare: int) -> list[list[TokenChunk]]:
    """Sort chunks into groups that attend together.

    All extents of a group have the same size, and its chunks are padded to the longest. A group costs about rows *
    queries * keys + `spare`. So padding that costs up to `spare` is cheaper than a further group.
    """
    groups: list[list[TokenChunk]] = []
    cost = 0
    for chunk in sorted(chunks, key=lambda chunk: (chunk.extent.size, chunk.size, chunk.end)):
        cost += chunk.size * chunk.end
        if groups and groups[-1][0].extent.size == chunk.extent.size:
            keys = max(groups[-1][-1].end, chunk.end)
            if (len(groups[-1]) + 1) * chunk.size * keys <= cost + spare:
                groups[-1].append(chunk)
                continue
        groups.append([chunk])
        cost = chunk.size * chunk.end
    return [sorted(group, key=lambda chunk: chunk.extent) for group in groups]


class AttentionGroup:
    """The rows of one padded attention.

    * size: number of tokens of each extent that it reads
    * rows: the extents that it reads, as a range (may include unused extents) or a list
    * keys: number of keys read from each extent
    * packed (rows, queries): the packed token of each query; 0 for padding
    * real (tokens,): which of the rows * queries are tokens, in packed order; None if all are, in order
    * position (rows, queries, 1): position of each query
    """

    def __init__(self, chunks: Sequence[TokenChunk], first: int, device: torch.device) -> None:
        self.size = chunks[0].extent.size
        places = [chunk.extent.start // self.size for chunk in chunks]
        low, high = places[0], places[-1] + 1
        # A range of up to twice the needed rows is read whole: this costs less than copying the needed rows.
        dense = high - low <= 2 * len(chunks)
        row = [place - low for place in places] if dense else list(range(len(chunks)))
        rows, queries = (high - low if dense else len(chunks)), max(chunk.size for chunk in chunks)
        self.keys = max(chunk.end for chunk in chunks)
        self.rows = slice(low, high) if dense else torch.tensor(places, device=device)
        packed = np.zeros((rows, queries), dtype=np.int64)
        position = np.zeros((rows, queries), dtype=np.int64)
        if queries == 1:
            packed[row, 0] = np.arange(first, first + len(chunks))
            position[row, 0] = [chunk.start for chunk in chunks]
            real = np.array(row)
        else:
            at = first
            for index, chunk in zip(row, chunks, strict=True):
                packed[index, : chunk.size] = range(at, at + chunk.size)
                position[index, : chunk.size] = range(chunk.start, chunk.end)
                at += chunk.size
            real = np.concatenate([i * queries + np.arange(chunk.size) for i, chunk in zip(row, chunks, strict=True)])
        self.packed = torch.from_numpy(packed).to(device)
        self.real = None if len(real) == rows * queries else torch.from_numpy(real).to(device)
        self.position = torch.from_numpy(position)[:, :, None].to(device)
        self._masks: dict[tuple[int | None, int, torch.dtype], Tensor] = {}

    def mask(self, window: int | None, shared: int, dtype: torch.dtype) -> Tensor:
        """Return the additive mask (rows, 1, shared * queries, keys).

        A query sees keys up to its own position, and of these only the last `window`.
        """
        known = self._masks.get((window, shared, dtype))
        if known is None:
            key = torch.arange(self.keys, device=self.position.device)
            hidden = key > self.position
            if window is not None:
                hidden |= key <= self.position - window
            known = torch.zeros(hidden.shape, dtype=dtype, device=key.device).masked_fill_(hidden, -torch.inf)
            known = known.repeat(1, shared, 1)[:, None] if hidden.shape[1] > 1 else known[:, None]
            self._masks[window, shared, dtype] = known
        return known


class Plan:
    """The plan of one forward. Packed tokens are sorted by group, then by extent.

    * chunks: in packed order
    * entry (tokens,) and position (tokens,): the place of each packed token
    * positions (tokens,): the same positions, on the device
    * padding: number of padded places in the groups; 0 before `groups` is read
    """

    def __init__(self, chunks: Sequence[TokenChunk], spare: int, device: torch.device) -> None:
        self._grouped = group_chunks(chunks, spare)
        self.chunks = [chunk for group in self._grouped for chunk in group]
        counts = [chunk.size for chunk in self.chunks]
        self.entry = np.repeat([chunk.entry for chunk in self.chunks], counts)
        self.position = np.repeat([chunk.end for chunk in self.chunks], counts)
        self.position += np.arange(len(self.entry)) - np.repeat(np.cumsum(counts), counts)
        self.positions = torch.from_numpy(self.position).to(device)
        self.windows: set[int | None] = set()
        self.padding = 0
        self._extent = np.repeat([chunk.extent for chunk in self.chunks], counts, axis=0)
        self._places: dict[int, Tensor] = {}
        self._calls: dict[int, list[FlashCall]] = {}

    @cached_property
    def groups(self) -> list[AttentionGroup]:
        """Return the padded groups, in packed order."""
        groups = []
        first = 0
        for group in self._grouped:
            groups.append(AttentionGroup(group, first, self.positions.device))
            first += sum(chunk.size for chunk in group)
        self.padding = sum(group.packed.numel() for group in groups) - first
        return groups

    def places(self, heads: int) -> Tensor:
        """Return (tokens * heads,): the row of each packed token's keys in a store of `heads` heads.

        A row has `dim` numbers.
        """
        known = self._places.get(heads)
        if known is None:
            start, size = self._extent.T
            rows = (start * heads + self.position)[:, None] + size[:, None] * np.arange(heads)
            known = self._places[heads] = torch.from_numpy(rows.ravel()).to(self.positions.device)
        return known

    def calls(self, heads: int) -> list[FlashCall]:
        """Return the calls of the flash kernel over a store of `heads` heads.

        All chunks of one token share a call, and all longer chunks another, because the kernel lays out a call for its
        longest chunk.
        """
        known = self._calls.get(heads)
        if known is None:
            size = np.array([chunk.size for chunk in self.chunks])
            parts = [part for part in (np.flatnonzero(size == 1), np.flatnonzero(size > 1)) if len(part)]
            known = self._calls[heads] = [self._make_call(part, heads) for part in parts]
        return known

    def _make_call(self, part: NDArray[np.int64], heads: int) -> FlashCall:
        """Return the kernel call for the chunks with the indices `part`."""
        chunks = [self.chunks[index] for index in part]
        size = np.array([chunk.size for chunk in self.chunks])
        first = (np.cumsum(size) - size)[part]
        start, extent = np.array([chunk.extent for chunk in chunks]).T
        keys = start[:, None] * heads + extent[:, None] * np.arange(heads)
        end = np.array([chunk.end for chunk in chunks])
        counts = np.repeat(size[part], heads)  # number of queries of each sequence (one chunk, one key head)
        begin = np.cumsum(counts) - counts
        order = None
        if len(part) < len(size) or size.max() > 1:
            head = np.arange(heads)
            row = np.repeat((first[:, None] * heads + head).ravel() - begin * heads, counts)
            order = self._upload(row + heads * np.arange(counts.sum()), np.int64)
        return FlashCall(
            order=order,
            queries=self._upload(np.append(begin, counts.sum()), np.int32),
            keys=self._upload(np.append(keys.ravel(), 0), np.int32),
            counts=self._upload(np.repeat(end, heads), np.int32),
            most_queries=int(counts.max()),
            most_keys=int(end.max()),
        )

    def _upload(self, numbers: NDArray[np.int64], kind: type) -> Tensor:
        return torch.from_numpy(numbers.astype(kind)).to(self.positions.device)
