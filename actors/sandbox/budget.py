"""Bound the memory of all children together: decide when to measure it, and which children to kill above the bound."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from actors.sandbox.process import ChildProcess

WATCH_S = 0.01, 0.25
"""The shortest and the longest pause between two measurements, in seconds."""

FILLED_BYTES_S = 4 << 30
"""Bytes a second that programs on all processors together can fill."""


def pause_s(room_bytes: int) -> float:
    """Return the seconds until the next measurement. It comes before programs can have filled `room_bytes`."""
    return min(max(room_bytes / FILLED_BYTES_S, WATCH_S[0]), WATCH_S[1])


def find_excess(grown: dict[ChildProcess, int], most: int) -> Iterator[ChildProcess]:
    """Yield the children to kill until the other children together have at most `most` bytes.

    Each time, choose the program with the most memory over all its children, and take its largest child. So if one
    program has many small children, it cannot cause the death of another program's large child.
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
