"""The parts that a draft lacks, in the order in which its host asks for them. Pure."""

from collections import Counter, deque
from collections.abc import Iterable


class MissingParts:
    """Byte ranges of a file, cut at the multiples of `most` bytes.

    Hosts that fetch at once begin at different places (`begin`, a share of all parts): then each has what the others
    lack, and the source sends little more than one copy to all of them together.
    """

    def __init__(self, spans: Iterable[tuple[int, int]], most: int, begin: float) -> None:
        cut = [
            (max(start, number * most), min(end, (number + 1) * most))
            for start, end in sorted(spans)
            for number in range(start // most, -(-end // most))
        ]
        self._most = most
        self._lacking = Counter(start // most for start, _ in cut)
        first = int(begin * len(cut))
        self._left = deque(cut[first:] + cut[:first])

    def take(self) -> tuple[int, int] | None:
        """The next part to ask for; None if there is none."""
        return self._left.popleft() if self._left else None

    def put(self, start: int) -> None:
        """Note that the part that begins at `start` is in the file."""
        self._lacking[start // self._most] -= 1

    def has(self, offset: int, count: int) -> bool:
        """True if nothing of these bytes is lacking."""
        numbers = range(offset // self._most, -(-(offset + count) // self._most))
        return not any(self._lacking[number] for number in numbers)
