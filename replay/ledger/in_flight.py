"""Count the work in flight. Each change updates the counts, so that no request scans all plays.

The counts are derived from the records and rebuilt when a run is loaded. They are never stored. Call `drop` before
you change a play, or the state or holder of other work, and `add` afterwards. So the counts always match the records.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Generic, TypeVar

from replay.ledger.records import Audit, Chunk, Environment, Job, PlayRecord

Key = TypeVar("Key")
Work = TypeVar("Work", Job, PlayRecord, Audit)


class Leases(Generic[Work]):
    """Tracks one kind of work: open work in the order of leasing, and leased work by holder and request.

    `order` returns the sort key of open work: the least key is leased first. Each key must be unique.
    """

    def __init__(self, order: Callable[[Work], tuple[float | str, ...]]) -> None:
        self._order: Callable[[Work], tuple[float | str, ...]] = order
        # A heap. `next` skips entries of work that was leased or closed meanwhile.
        self._open: list[tuple[tuple[float | str, ...], Work]] = []
        self._held: dict[tuple[str, int], dict[str, Work]] = {}

    def add(self, work: Work) -> None:
        """Add work that is open or leased. Ignores work in any other state."""
        if work.state == "leased":
            self._held.setdefault((work.holder, work.request), {})[work.id] = work
        elif work.state == "open":
            heappush(self._open, (self._order(work), work))

    def drop(self, work: Work) -> None:
        """Remove work before its state or holder changes."""
        if work.state == "leased":
            held = self._held[work.holder, work.request]
            del held[work.id]
            if not held:
                del self._held[work.holder, work.request]

    def next(self) -> Work | None:
        """Remove and return the first open work."""
        while self._open:
            _, work = heappop(self._open)
            if work.state == "open":
                return work
        return None

    def lease(self, work: Work, holder: str, request: int, deadline: float) -> None:
        """Lease open work to a holder. `request` is the number of the holder's request."""
        self.drop(work)
        work.state, work.holder, work.request, work.deadline = "leased", holder, request, deadline
        work.lease += 1
        self.add(work)

    def release(self, work: Work) -> None:
        """Open leased work again."""
        self.drop(work)
        work.state, work.holder = "open", ""
        self.add(work)

    def held(self, holder: str, request: int) -> list[Work]:
        """Return the work that was leased for one request of a holder, sorted by id.

        Returns nothing for request number 0, because such a request is never sent again.
        """
        held = self._held.get((holder, request), {}) if request else {}
        return [held[id] for id in sorted(held)]

    def lost(self, now: float, live: frozenset[str] | None) -> list[Work]:
        """Return leased work if its deadline is past, or if its holder is not in `live`, the connected holders.

        `live` is None if the connected holders are unknown.
        """
        return [work for work in self if now >= work.deadline or (live is not None and work.holder not in live)]

    def __iter__(self) -> Iterator[Work]:
        """Yield all leased work."""
        for held in self._held.values():
            yield from held.values()


class ChunkCounts:
    """The counts of a chunk.

    plays     all plays, the unhinted plays first, by index
    unhinted  number of unhinted plays
    pending   number of unhinted plays that have not ended
    steps     unhinted plays that are leased or finished, counted by the learner step of their version
    """

    __slots__ = ("chunk", "pending", "plays", "steps", "unhinted")

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.plays: list[PlayRecord] = []
        self.unhinted = 0
        self.pending = 0
        self.steps: dict[int, int] = {}


class Window:
    """Counts of an environment's plays: all, void, ended."""

    __slots__ = ("ended", "environment", "plays", "voids")

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.plays = 0
        self.voids = 0
        self.ended = 0


class Flight(Leases[PlayRecord]):
    """The plays of the active environments, with an index for each kind of look-up.

    Only plays of chunks that have begun are leased, the oldest chunk first. Within a chunk, the plays of both arms are
    leased in random order.

    windows    the window of each environment
    resting    environments whose newest chunk is scored
    unscored   number of chunks that are not scored
    sequences  number of unhinted plays in the chunks in flight (begun, not scored), by learner step. All plays of a
               chunk count under the earliest step of its leased and finished plays, or under None without such plays.
               A leased play has the step of the newest weights at its lease. A finished play has the step of the oldest
               weights that sampled one of its tokens.
    """

    def __init__(self, steps: dict[int, int], place: Callable[[PlayRecord], int]) -> None:
        """Begin empty. `steps`: the learner step of each version. `place`: a play's place within its chunk."""
        super().__init__(lambda play: (self._opened_at(play), play.environment, play.chunk, place(play)))
        self._steps = steps
        self.windows: dict[str, Window] = {}
        self.resting: dict[str, Environment] = {}
        self.unscored = 0
        self.sequences: dict[int | None, int] = {}
        self._chunks: dict[tuple[str, int], ChunkCounts] = {}
        # A heap of the chunks that have not begun, by opening time. `next_chunk` skips chunks of closed environments.
        self._fresh: list[tuple[float, str, int]] = []

    # ------------------------------------------------------------ chunks

    def open(self, environment: Environment, chunk: Chunk) -> None:
        """Add a chunk of an active environment, before its plays."""
        self.windows.setdefault(environment.id, Window(environment))
        self._chunks[environment.id, chunk.index] = ChunkCounts(chunk)
        if not chunk.begun:
            heappush(self._fresh, (chunk.opened_at, environment.id, chunk.index))
        if chunk.scored_at is None:
            self.unscored += 1
            self.resting.pop(environment.id, None)
        else:
            self.resting[environment.id] = environment

    def next_chunk(self) -> tuple[Environment, Chunk] | None:
        """Remove and return the oldest chunk that has not begun."""
        while self._fresh:
            _, id, index = heappop(self._fresh)
            if id in self.windows:
                return self.windows[id].environment, self._chunks[id, index].chunk
        return None

    def begin(self, environment: Environment, chunk: Chunk) -> None:
        """Mark the chunk as begun: its plays may be leased from now on."""
        tally = self._chunks[environment.id, chunk.index]
        chunk.begun = True
        self._fly(tally, 1)
        for play in tally.plays:
            super().add(play)

    def score(self, environment: Environment, chunk: Chunk, now: float) -> None:
        """Mark the chunk as scored at `now`."""
        self._fly(self._chunks[environment.id, chunk.index], -1)
        chunk.scored_at = now
        self.unscored -= 1
        self.resting[environment.id] = environment

    def tally(self, environment: Environment, chunk: Chunk) -> ChunkCounts:
        """Return the counts of a chunk."""
        return self._chunks[environment.id, chunk.index]

    def forget(self, environment: Environment) -> list[PlayRecord]:
        """Remove a closed environment. Returns its plays, chunk by chunk."""
        self.windows.pop(environment.id, None)
        self.resting.pop(environment.id, None)
        return [play for chunk in environment.chunks for play in self._chunks.pop((environment.id, chunk.index)).plays]

    # ------------------------------------------------------------ plays

    def enter(self, play: PlayRecord) -> None:
        """Add a new play of an open chunk."""
        tally = self._chunks[play.environment, play.chunk]
        self._fly(tally, -1)
        tally.plays.append(play)
        tally.unhinted += not play.hinted
        self._fly(tally, 1)
        self.windows[play.environment].plays += 1
        self.add(play)

    def add(self, play: PlayRecord) -> None:
        """Count a play in its present state. Until its chunk has begun, the play cannot be leased."""
        if self._count(play, 1).chunk.begun:
            super().add(play)

    def drop(self, play: PlayRecord) -> None:
        """Remove a play from the counts before it changes."""
        self._count(play, -1)
        super().drop(play)

    def _count(self, play: PlayRecord, one: int) -> ChunkCounts:
        tally, window = self._chunks[play.environment, play.chunk], self.windows[play.environment]
        ended = play.state in ("finished", "void")
        window.ended += one * ended
        window.voids += one * (play.state == "void")
        if not play.hinted:
            tally.pending += one * (not ended)
            if play.state in ("leased", "finished"):
                self._weigh(tally, self._steps[play.version], one)
        return tally

    def _weigh(self, tally: ChunkCounts, step: int, one: int) -> None:
        """Add the learner step of an unhinted play to its chunk (`one` = 1), or remove it (`one` = -1)."""
        count = tally.steps.get(step, 0) + one
        if count and step in tally.steps:
            tally.steps[step] = count
            return  # the chunk's earliest step changes only if a step appears or vanishes
        self._fly(tally, -1)
        _shift(tally.steps, step, one)
        self._fly(tally, 1)

    def _opened_at(self, play: PlayRecord) -> float:
        return self._chunks[play.environment, play.chunk].chunk.opened_at

    def _fly(self, tally: ChunkCounts, one: int) -> None:
        if tally.chunk.begun and tally.chunk.scored_at is None:
            _shift(self.sequences, min(tally.steps, default=None), one * tally.unhinted)


def _shift(counts: dict[Key, int], key: Key, by: int) -> None:
    """Change a count. Remove an entry that falls to 0."""
    count = counts.get(key, 0) + by
    if count:
        counts[key] = count
    else:
        counts.pop(key, None)
