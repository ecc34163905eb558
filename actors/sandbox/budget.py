"""The memory that all children may have together: when to look at it, and who goes where it is too much."""

from collections.abc import Iterator

from actors.sandbox.process import Process

WATCH_S = 0.01, 0.25
"""The least and the most between two looks at the children."""

FILLED_BYTES_S = 4 << 30
"""So much memory programs can take in a second, all processors together."""


def pause_s(room_bytes: int) -> float:
    """Until memory is looked at again: before programs can have filled the room that is left."""
    return min(max(room_bytes / FILLED_BYTES_S, WATCH_S[0]), WATCH_S[1])


def excess(grown: dict[Process, int], most: int) -> Iterator[Process]:
    """Those that grew most, until the others are together under `most` bytes."""
    total = sum(grown.values())
    for child in sorted(grown, key=grown.__getitem__, reverse=True):
        if total <= most:
            return
        total -= grown[child]
        yield child
