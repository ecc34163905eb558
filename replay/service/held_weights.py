"""Folders of weights that engines hold, by their own receipts, and those that the learner may delete. Pure.

Locks of files would do on one machine; file systems that machines share need not bring them from one to another.
"""

from collections.abc import Collection, Iterable

_RETIRED = 1_024  # digests that are remembered: an engine asks for newest weights, never for such old ones


class HeldWeights:
    """Receipts since the service started, at `start` on the run clock; `silence_s` later all engines have said them."""

    def __init__(self, start: float, silence_s: float) -> None:
        self._known_at = start + silence_s
        self._held: dict[str, frozenset[str]] = {}
        self._retired: dict[str, None] = {}

    def hold(self, engine: str, digests: Iterable[str]) -> str:
        """Note that an engine holds these folders and no others; returns the digest of one that is retired, else ""."""
        wanted = frozenset(digests)
        if gone := wanted & self._retired.keys():
            return min(gone)
        self._held[engine] = wanted
        return ""

    def published(self, digest: str) -> None:
        """Note that these weights are the newest, perhaps once more."""
        self._retired.pop(digest, None)

    def retire(self, digests: Iterable[str], engines: Collection[str], now: float) -> tuple[str, ...]:
        """Retire those that no engine holds: from now on none can. `engines`: the names of those that are connected."""
        self._held = {name: held for name, held in self._held.items() if name in engines}
        if now < self._known_at:
            return ()
        held = frozenset[str]().union(*self._held.values())
        free = tuple(digest for digest in digests if digest not in held)
        self._retired |= dict.fromkeys(free)
        for oldest in list(self._retired)[:-_RETIRED]:
            del self._retired[oldest]
        return free
