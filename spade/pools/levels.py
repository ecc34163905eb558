"""Levels of a pool's programs: how hard their instances are. Pure.

RLVE's rule, made asynchronous (Zeng et al. 2025, "RLVE"): each name has a window of levels [low, high], from [0, 0] on.
A slot draws its level evenly from it. Plays count while their level is the present high; once `window_plays` have
counted, high rises by one if a share of `window_rate` of them was won, and the counts begin anew either way.
"""

import re
from collections.abc import Callable, Iterable, Mapping

import msgspec

from spade.codec import program_digest
from spade.config import Pool
from spade.pools.folder import Entry, PoolList

FAILURES = 5
"""Slots in a row whose program made no instance at a level, after which the level is closed."""
_LEVEL = re.compile(r"^    level = \d+$", re.MULTILINE)


def at_level(source: str, level: int) -> str:
    """A program of a library with this number in its line `level = 0`; unchanged where it has no such line."""
    return _LEVEL.sub(f"    level = {level}", source, count=1)


def is_entry(source: str, entry: Entry, level: int) -> bool:
    """True for the program of an entry, at this level where it has levels."""
    if not entry.levels:
        return program_digest(source) == entry.program
    return program_digest(at_level(source, 0)) == entry.program and at_level(source, level) == source


class LevelWindow(msgspec.Struct, frozen=True, array_like=True):
    """The window of a name. `plays` counts those at `high` since it was last judged, and `wins` those of them won.

    `cap` is the highest level that makes instances, as far as is known (None: no level was closed), -1 if none does;
    `failures` counts slots in a row that failed, by level.
    """

    name: str
    low: int = 0
    high: int = 0
    plays: int = 0
    wins: int = 0
    cap: int | None = None
    failures: tuple[tuple[int, int], ...] = ()

    def drawn(self, key: int) -> int:
        """A level of the window, each as likely as any other."""
        return self.low + key % (self.high - self.low + 1)


def counted(window: LevelWindow, level: int, won: bool, rule: Pool, most: int) -> LevelWindow:
    """The window after a play of that level, which may raise it as high as `most`. Voids are no plays."""
    failures = tuple(each for each in window.failures if each[0] != level)
    if level != window.high:
        return msgspec.structs.replace(window, failures=failures)
    plays, wins = window.plays + 1, window.wins + won
    if plays < rule.window_plays:
        return msgspec.structs.replace(window, failures=failures, plays=plays, wins=wins)
    bound = most if window.cap is None else min(most, window.cap)
    high = window.high + (wins / plays >= rule.window_rate and window.high < bound)
    low = max(window.low, high - rule.window_width + 1)
    return msgspec.structs.replace(window, failures=failures, plays=0, wins=0, low=low, high=high)


def failed(window: LevelWindow, level: int) -> LevelWindow:
    """The window after a slot whose program made no instance at that level; the last of FAILURES closes the level."""
    counts = dict(window.failures)
    counts[level] = counts.get(level, 0) + 1
    failures = tuple(sorted(counts.items()))
    if counts[level] < FAILURES or (window.cap is not None and level > window.cap):
        return msgspec.structs.replace(window, failures=failures)
    high, low = max(min(window.high, level - 1), 0), max(min(window.low, level - 1), 0)
    plays, wins = (window.plays, window.wins) if high == window.high else (0, 0)
    return msgspec.structs.replace(window, failures=failures, cap=level - 1, low=low, high=high, plays=plays, wins=wins)


class Levels:
    """The windows of all names of a pool. `keep` is told each window that changes."""

    def __init__(
        self,
        rule: Pool,
        pool: PoolList,
        keep: Callable[[LevelWindow], None],
        windows: Iterable[LevelWindow] = (),
    ) -> None:
        self._rule, self._keep = rule, keep
        self._most = {entry.name: rule.level_most if entry.levels else 0 for entry in pool.entries}
        self._windows = {name: LevelWindow(name) for name in self._most} | {each.name: each for each in windows}

    @property
    def windows(self) -> Mapping[str, LevelWindow]:
        """The windows by name."""
        return self._windows

    @property
    def capped(self) -> dict[str, int]:
        """The names that have a closed level, with their highest level below it."""
        return {name: window.cap for name, window in self._windows.items() if window.cap is not None}

    def count(self, name: str, level: int, won: bool) -> None:
        """Count a play of a name."""
        self._take(counted(self._windows[name], level, won, self._rule, self._most[name]))

    def fail(self, name: str, level: int) -> bool:
        """Count a slot without an instance; False if the name has no level left."""
        window = failed(self._windows[name], level)
        self._take(window)
        return window.cap != -1

    def _take(self, window: LevelWindow) -> None:
        if window != self._windows[window.name]:
            self._windows[window.name] = window
            self._keep(window)
