"""The parts of a file that a draft lacks, and the choice of the next part to ask for. Does no I/O and reads no clock.

A set of parts is an integer. Bit i stands for the part of at most `most` bytes from byte i * most.
"""

import random
from collections import defaultdict
from collections.abc import Iterable

ALL = -1


class MissingParts:
    """Byte ranges of a file, in parts of at most `most` bytes.

    * begin: where this host begins among all parts, from 0 (the first) to 1. Each host begins at a different part
    * lacking: the parts with bytes that are not in the file yet
    * left: the lacking parts that nobody has been asked for
    """

    def __init__(self, spans: Iterable[tuple[int, int]], most: int, begin: float) -> None:
        self._most = most
        self._spans = defaultdict[int, list[tuple[int, int]]](list)
        for start, end in _merge_spans(spans):
            for number in range(start // most, -(-end // most)):
                self._spans[number].append((max(start, number * most), min(end, (number + 1) * most)))
        numbers = sorted(self._spans)
        self.lacking = self.left = sum(1 << number for number in numbers)
        self._begin = self._next = numbers[int(begin * len(numbers))] if numbers else 0

    def spans(self, number: int) -> list[tuple[int, int]]:
        """Return the byte ranges of a part that must be fetched."""
        return self._spans[number]

    def take_unheld(self, unheld: int) -> int | None:
        """Take one of the parts that no engine holds, to ask the learner for it. Returns None if all are taken.

        Takes parts in order, beginning with this host's first part. If the next part is not available, continues from
        a random part.
        """
        among = self.left & unheld
        if not among:
            return None
        if not among >> self._next & 1:
            self._next = random.choice([at for at, bit in enumerate(reversed(f"{among:b}")) if bit == "1"])
        self._next += 1
        return self._take(self._next - 1)

    def take_held(self, held: int) -> int | None:
        """Take one of the parts that a source holds, to ask this source for it. Returns None if all are taken.

        Takes the last such part before the part at which this host began, else the last such part of the file. Few
        hosts have the parts just before this host's first part: the host that asks for them in order reaches them last.
        """
        among = self.left & held
        before = among & ((1 << self._begin) - 1)
        return self._take((before or among).bit_length() - 1) if among else None

    def _take(self, number: int) -> int:
        self.left &= ~(1 << number)
        return number

    def put(self, number: int) -> None:
        """Record that this part is completely in the file."""
        self.lacking &= ~(1 << number)

    def give_back(self, number: int) -> None:
        """Record that a taken part did not arrive, so that it can be taken again."""
        self.left |= 1 << number

    def has(self, offset: int, count: int) -> bool:
        """Return True if none of these bytes is lacking."""
        first, end = offset // self._most, -(-(offset + count) // self._most)
        beyond = self.lacking >> first
        return not beyond or (beyond & -beyond).bit_length() > end - first


def _merge_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge adjoining spans. Return as few spans as possible, in order."""
    merged = list[tuple[int, int]]()
    for start, end in sorted(spans):
        if merged and merged[-1][1] == start:
            merged[-1] = merged[-1][0], end
        elif start < end:
            merged.append((start, end))
    return merged
