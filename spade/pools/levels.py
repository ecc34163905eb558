"""Levels of a pool's programs: the difficulty of their instances. Pure.

The rule is RLVE's, made asynchronous (Zeng et al. 2025, "RLVE"). Each name has a window of levels [low, high], which
starts at [0, 0]. A slot draws its level evenly from the window. Plays count only at the present high. Once
`window_plays` plays have counted, high rises by one if a share of `window_rate` of them was won. The counts then start
anew in either case.
"""

import re
from collections.abc import Callable, Iterable, Mapping

import msgspec

from spade.codec import compute_program_digest
from spade.config import Pool
from spade.pools.folder import Entry, PoolList

WINDOW_WIDTH = 4  # most levels in a window, as in RLVE
HIGHEST = 20  # highest level of a window; RLVE itself sets no bound
FAILURES = 5
"""A level is closed after its programs failed to make an instance in this many slots in a row."""
_LEVEL = re.compile(r"^    level = \d+$", re.MULTILINE)


def set_level(source: str, level: int) -> str:
    """Set the level in a library program's line `level = 0`. A program without such a line stays unchanged."""
    return _LEVEL.sub(f"    level = {level}", source, count=1)


def is_entry(source: str, entry: Entry, level: int) -> bool:
    """Return True if `source` is the program of an entry. If the program has levels, it must be set to `level`."""
    if not entry.levels:
        return compute_program_digest(source) == entry.program
    return compute_program_digest(set_level(source, 0)) == entry.program and set_level(source, level) == source


class LevelWindow(msgspec.Struct, frozen=True, array_like=True):
    """The window of levels of one program."""

    name: str
    """Name of the program."""

    low: int = 0
    """Lowest level."""

    high: int = 0
    """Highest level."""

    plays: int = 0
    """Plays at `high` since the window was last judged."""

    wins: int = 0
    """Won plays among these."""

    cap: int | None = None
    """Level below the lowest closed level, -1 if every level is closed. None if no level was closed."""

    failures: tuple[tuple[int, int], ...] = ()
    """Failed slots in a row, as pairs (level, count)."""

    def drawn(self, key: int) -> int:
        """Return a level of the window by `key`, each equally likely."""
        return self.low + key % (self.high - self.low + 1)


def count_play(window: LevelWindow, level: int, won: bool, rule: Pool, most: int) -> LevelWindow:
    """Return the window after a play at `level`, which may raise high up to `most`. Voids do not count as plays."""
    failures = tuple(each for each in window.failures if each[0] != level)
    if level != window.high:
        return msgspec.structs.replace(window, failures=failures)
    plays, wins = window.plays + 1, window.wins + won
    if plays < rule.window_plays:
        return msgspec.structs.replace(window, failures=failures, plays=plays, wins=wins)
    bound = most if window.cap is None else min(most, window.cap)
    high = window.high + (wins / plays >= rule.window_rate and window.high < bound)
    low = max(window.low, high - WINDOW_WIDTH + 1)
    return msgspec.structs.replace(window, failures=failures, plays=0, wins=0, low=low, high=high)


def count_failed(window: LevelWindow, level: int) -> LevelWindow:
    """Return the window after a slot without an instance at `level`.

    The last of FAILURES such slots in a row closes the level.
    """
    counts = dict(window.failures)
    counts[level] = counts.get(level, 0) + 1
    failures = tuple(sorted(counts.items()))
    if counts[level] < FAILURES or (window.cap is not None and level > window.cap):
        return msgspec.structs.replace(window, failures=failures)
    high, low = max(min(window.high, level - 1), 0), max(min(window.low, level - 1), 0)
    plays, wins = (window.plays, window.wins) if high == window.high else (0, 0)
    return msgspec.structs.replace(window, failures=failures, cap=level - 1, low=low, high=high, plays=plays, wins=wins)


class Levels:
    """The windows of levels of all programs of a pool. `keep` is called with each window that changes."""

    def __init__(
        self,
        rule: Pool,
        pool: PoolList,
        keep: Callable[[LevelWindow], None],
        windows: Iterable[LevelWindow] = (),
    ) -> None:
        self._rule, self._keep = rule, keep
        self._most = {entry.name: HIGHEST if entry.levels else 0 for entry in pool.entries}
        self._windows = {name: LevelWindow(name) for name in self._most} | {each.name: each for each in windows}

    @property
    def windows(self) -> Mapping[str, LevelWindow]:
        """Return the windows by name."""
        return self._windows

    @property
    def capped(self) -> dict[str, int]:
        """Return the names with a closed level. The value is the highest level below it."""
        return {name: window.cap for name, window in self._windows.items() if window.cap is not None}

    def count(self, name: str, level: int, won: bool) -> None:
        """Count a play of a name."""
        self._take(count_play(self._windows[name], level, won, self._rule, self._most[name]))

    def fail(self, name: str, level: int) -> bool:
        """Count a slot in which no instance of `level` could be made. Returns False if no level of the name is left."""
        window = count_failed(self._windows[name], level)
        self._take(window)
        return window.cap != -1

    def _take(self, window: LevelWindow) -> None:
        if window != self._windows[window.name]:
            self._windows[window.name] = window
            self._keep(window)
