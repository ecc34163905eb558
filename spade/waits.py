"""Record the waits of a process. The holder of a wait is the process that can end it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from spade.protocol import Process, Wait


class Waits:
    """The open waits of one process, which its heartbeats report.

    `clock` returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: dict[object, tuple[str, str, float]] = {}

    @contextmanager
    def on(self, holder: str, what: str, since: float | None = None) -> Iterator[None]:
        """Record during the block that we wait for `holder` to deliver `what`. `since` is given if the wait began
        earlier."""
        key = object()
        self._open[key] = (holder, what, self._clock() if since is None else since)
        try:
            yield
        finally:
            del self._open[key]

    def report(self) -> tuple[Wait, ...]:
        """Group the open waits by the process waited for and by the thing awaited. Return one Wait for each group.

        A Wait has the number of waits in its group, and the age of the oldest in seconds.
        """
        now, found = self._clock(), dict[tuple[str, str], list[float]]()
        for holder, what, since in self._open.values():
            found.setdefault((holder, what), []).append(now - since)
        return tuple(Wait(holder, what, len(ages), max(ages)) for (holder, what), ages in found.items())


def describe(wait: Wait, processes: Sequence[Process] = ()) -> str:
    """Describe a wait in one line, with the state of its holder if `processes` shows that the holder is not ready."""
    times = f" ×{wait.count}" if wait.count > 1 else ""
    states = [process.state for process in processes if process.name == wait.holder and process.state != "ready"]
    state = f" ({states[-1]})" if states else ""
    why = f": {wait.why}" if wait.why else ""
    return f"{wait.who} waits {wait.for_s:.1f} s for {wait.holder}{state}, {wait.what}{times}{why}"


def describe_all(waits: Sequence[Wait], processes: Sequence[Process]) -> list[str]:
    """Describe each wait in one line, longest first."""
    return [describe(wait, processes) for wait in sorted(waits, key=lambda wait: (-wait.for_s, wait.who, wait.holder))]


def find_root_causes(waits: Sequence[Wait]) -> list[Wait]:
    """Return the ends of the chains of waits: for each holder that itself does not wait, the longest wait for it."""
    waiting = {wait.who for wait in waits}
    longest: dict[str, Wait] = {}
    for wait in sorted(waits, key=lambda wait: -wait.for_s):
        if wait.holder not in waiting:
            longest.setdefault(wait.holder, wait)
    return list(longest.values())


def add_owner(waits: Sequence[Wait], who: str) -> tuple[Wait, ...]:
    """Return the waits with their owner's name."""
    return tuple(msgspec.structs.replace(wait, who=who) for wait in waits)
