"""The memory of all children together: when to measure it, and which children to kill when it is too much."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from actors.sandbox.process import ChildProcess

WATCH_S = 0.01, 0.25
"""The shortest and the longest pause between two measurements, seconds."""

FILLED_BYTES_S = 4 << 30
"""Bytes that programs on all processors together can fill in a second."""


def pause_s(room_bytes: int) -> float:
    """Seconds until the next measurement: it comes before programs can have filled `room_bytes`."""
    return min(max(room_bytes / FILLED_BYTES_S, WATCH_S[0]), WATCH_S[1])


def excess(grown: dict[ChildProcess, int], most: int) -> Iterator[ChildProcess]:
    """The children to kill until the others are together under `most` bytes.

    Each is the largest child of the program whose children have most in all: a program that has less loses none,
    however large, to the many small ones of another.
    """
    children: defaultdict[str, list[ChildProcess]] = defaultdict(list)
    shares: Counter[str] = Counter()
    for child in sorted(grown, key=grown.__getitem__):
        children[child.program].append(child)
        shares[child.program] += grown[child]
    total = shares.total()
    while total > most and total > 0:
        [(program, _)] = shares.most_common(1)
        child = children[program].pop()
        shares[program] -= grown[child]
        total -= grown[child]
        yield child
