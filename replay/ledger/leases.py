"""Work that is handed out: what is open, in the order in which it is leased, and what is leased, by who asked for it.

Whoever changes the state or the holder of work takes it out with `drop` before and puts it back with `add` after.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Generic, TypeVar

from replay.ledger.records import Audit, Job, Play

Work = TypeVar("Work", Job, Play, Audit)


class Leases(Generic[Work]):
    """The leases of one kind of work."""

    def __init__(self) -> None:
        # An entry whose work has been leased or has closed meanwhile is passed over.
        self._open: list[tuple[tuple[float | str, ...], Work]] = []
        self._held: dict[tuple[str, int], dict[str, Work]] = {}

    def add(self, work: Work, *order: float | str) -> None:
        """Take work in as it is; open work is leased by its `order`, which no other work has."""
        if work.state == "leased":
            self._held.setdefault((work.holder, work.request), {})[work.id] = work
        elif work.state == "open":
            heappush(self._open, (order, work))

    def drop(self, work: Work) -> None:
        """Work is about to change."""
        if work.state == "leased":
            held = self._held[work.holder, work.request]
            del held[work.id]
            if not held:
                del self._held[work.holder, work.request]

    def next(self) -> Work | None:
        """The open work that is first. Asked for once."""
        while self._open:
            _, work = heappop(self._open)
            if work.state == "open":
                return work
        return None

    def held(self, holder: str, request: int) -> list[Work]:
        """What is leased to a holder with its request of this number, by id."""
        held = self._held.get((holder, request), {})
        return [held[id] for id in sorted(held)]

    def __iter__(self) -> Iterator[Work]:
        """All that is leased."""
        for held in self._held.values():
            yield from held.values()
