"""Room for keys and values, counted in tokens: a buddy allocator (Knowlton 1965). Host side, pure."""

from bisect import insort
from typing import NamedTuple

SMALLEST = 64  # tokens


class TokenExtent(NamedTuple):
    """`size` tokens from `start` on; the size is a power of two, at least SMALLEST, and divides the start."""

    start: int
    size: int


def size_for(tokens: int) -> int:
    """The size of the smallest extent that holds `tokens`."""
    return max(SMALLEST, 1 << (tokens - 1).bit_length())


class Extents:
    """The free extents of `total` tokens, a multiple of `largest`, the size of the largest extent ever taken."""

    def __init__(self, total: int, largest: int) -> None:
        assert total % largest == 0
        assert largest == size_for(largest)
        self._largest = largest
        self._free: dict[int, list[int]] = {largest: list(range(0, total, largest))}

    def take(self, size: int) -> TokenExtent | None:
        """The lowest free extent of a size, None where there is none."""
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
        """Free an extent, and merge it with its free neighbours."""
        start, size = extent
        while size < self._largest and (start ^ size) in self._free.get(size, ()):
            self._free[size].remove(start ^ size)
            start, size = start & ~size, 2 * size
        insort(self._free.setdefault(size, []), start)

    @property
    def free(self) -> int:
        """Tokens that are free, in extents of any size."""
        return sum(size * len(starts) for size, starts in self._free.items())
