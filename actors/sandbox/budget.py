"""The memory that all children may have together: when to measure it, and the children to kill if it is too much."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from actors.sandbox.process import ChildProcess

WATCH_S = 0.01, 0.25
"""The least and the most between two looks at the children."""

FILLED_BYTES_S = 4 << 30
"""So much memory programs can take in a second, all processors together."""


def pause_s(room_bytes: int) -> float:
    """Until memory is looked at again: before programs can have filled the room that is left."""
    return min(max(room_bytes / FILLED_BYTES_S, WATCH_S[0]), WATCH_S[1])


def excess(grown: dict[ChildProcess, int], most: int) -> Iterator[ChildProcess]:
    """Until the others are together under `most` bytes: of the program that has most in all, the child that grew most.

    So a program that has many children gets none evicted of another that has less, and larger ones.
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
