"""A buddy allocator (Knowlton 1965) of places for keys and values. Counts in tokens and touches no tensors."""

from bisect import insort
from typing import NamedTuple

SMALLEST = 64  # tokens in the smallest extent


class TokenExtent(NamedTuple):
    """A range of tokens in the store."""

    start: int
    """First token. A multiple of `size`."""

    size: int
    """Number of tokens: a power of two, at least SMALLEST."""


def compute_size(tokens: int) -> int:
    """Return the size of the smallest extent that holds `tokens`."""
    return max(SMALLEST, 1 << (tokens - 1).bit_length())


class Extents:
    """The free extents of `total` tokens.

    No caller takes more than `largest` tokens at once. `largest` divides `total`.
    """

    def __init__(self, total: int, largest: int) -> None:
        assert total % largest == 0
        assert largest == compute_size(largest)
        self._largest = largest
        self._free: dict[int, list[int]] = {largest: list(range(0, total, largest))}

    def take(self, size: int) -> TokenExtent | None:
        """Take the free extent of this size with the lowest start. Returns None if none is free."""
        whole = size
        while not self._free.get(whole):
            whole *= 2
            if whole > self._largest:
                return None
        start = self._free[whole].pop(0)
        while whole > size:
            whole //= 2
            insort(self._free.setdefault(whole, []), start + whole)
        return TokenExtent(start, size)

    def give(self, extent: TokenExtent) -> None:
        """Free an extent and merge it with its free neighbours."""
        start, size = extent
        while size < self._largest and (start ^ size) in self._free.get(size, ()):
            self._free[size].remove(start ^ size)
            start, size = start & ~size, 2 * size
        insort(self._free.setdefault(size, []), start)

    @property
    def free(self) -> int:
        """Return the number of free tokens, in extents of any size."""
        return sum(size * len(starts) for size, starts in self._free.items())
