"""The order of a pool: without replacement, pass after pass, each pass in its own permutation. Pure.

A program is active at most once at a time. If its turn comes while it is active, it is passed over. Once it is
inactive, it is drawn before any later program. So the next draw depends only on the draws of this pass and on the
active programs: a run that is killed goes on in the same order.
"""

from collections.abc import Callable, Container

import msgspec

from spade.pools.folder import Entry, PoolList


class Draws(msgspec.Struct, array_like=True):
    """The draws so far, which a run keeps. Programs are given by their place in the list."""

    number: int = 0
    """Number of the present pass, from 0."""

    place: int = 0
    """Next place in the pass's permutation."""

    passed_over: tuple[int, ...] = ()
    """Programs that were active when their turn in this pass came. They are still to be drawn."""

    rejected: tuple[int, ...] = ()
    """Programs that failed admission and are no longer drawn."""


class Drawing:
    """Draws programs from a pool. `key(number, index)` orders the programs of the pass `number`."""

    def __init__(self, pool: PoolList, key: Callable[[int, int], int], draws: Draws | None = None) -> None:
        self.pool = pool
        self.digest = pool.digest
        self.draws = draws or Draws()
        self._key = key
        self._index = {entry.name: index for index, entry in enumerate(pool.entries)}
        self._order: tuple[int, list[int]] = (-1, [])

    def __getitem__(self, name: str) -> Entry:
        return self.pool.entries[self._index[name]]

    @property
    def left(self) -> int:
        """Return the number of programs that this pass has still to draw."""
        draws = self.draws
        rest = self._make_permutation()[draws.place :]
        return len(draws.passed_over) + len(set(rest).difference(draws.rejected))

    @property
    def playable(self) -> int:
        """Return the number of programs that were not rejected."""
        return len(self.pool.entries) - len(self.draws.rejected)

    def next(self, active: Container[str]) -> Entry | None:
        """Draw a program that is not active.

        Returns None if the rest of this pass is active, or if every program was rejected.
        """
        while self.playable:
            index = self._next_of_pass(active)
            if index is not None:
                return self.pool.entries[index]
            if self.draws.passed_over:
                break
            self.draws = Draws(self.draws.number + 1, rejected=self.draws.rejected)
        return None

    def _next_of_pass(self, active: Container[str]) -> int | None:
        draws, entries = self.draws, self.pool.entries
        for index in draws.passed_over:
            if entries[index].name not in active:
                draws.passed_over = tuple(each for each in draws.passed_over if each != index)
                return index
        for index in self._make_permutation()[draws.place :]:
            draws.place += 1
            if index in draws.rejected:
                continue
            if entries[index].name not in active:
                return index
            draws.passed_over = (*draws.passed_over, index)
        return None

    def reject(self, name: str) -> None:
        """Stop drawing a program."""
        draws, index = self.draws, self._index[name]
        if index not in draws.rejected:
            draws.rejected = (*draws.rejected, index)
            draws.passed_over = tuple(each for each in draws.passed_over if each != index)

    def _make_permutation(self) -> list[int]:
        number = self.draws.number
        if self._order[0] != number:
            indices = range(len(self.pool.entries))
            self._order = number, sorted(indices, key=lambda index: (self._key(number, index), index))
        return self._order[1]
