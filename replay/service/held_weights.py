"""The folders of weights that engines hold, and the folders that the learner may delete. Pure.

On one machine, file locks would be enough. But a shared file system may not pass locks on to other machines.
"""

from collections.abc import Collection, Iterable

_RETIRED = 1_024  # number of retired digests that are remembered; no engine asks for weights older than these


class EngineWeights:
    """The engines' reports since the service started, at `start` on the run clock.

    `silence_s` after the start, every engine has reported.
    """

    def __init__(self, start: float, silence_s: float) -> None:
        self._known_at = start + silence_s
        self._held: dict[str, frozenset[str]] = {}
        self._retired: dict[str, None] = {}

    def hold(self, engine: str, digests: Iterable[str]) -> str:
        """Record that an engine holds exactly these folders. Returns "".

        If one of them is retired, records nothing and returns its digest.
        """
        wanted = frozenset(digests)
        if gone := wanted & self._retired.keys():
            return min(gone)
        self._held[engine] = wanted
        return ""

    def published(self, digest: str) -> None:
        """Record that these weights are the newest. They may have been the newest before."""
        self._retired.pop(digest, None)

    def retire(self, digests: Iterable[str], engines: Collection[str], now: float) -> tuple[str, ...]:
        """Retire the weights that no engine holds. From then on no engine can hold them.

        `engines`: names of the connected engines. Returns the retired digests.
        """
        self._held = {name: held for name, held in self._held.items() if name in engines}
        if now < self._known_at:
            return ()
        held = frozenset[str]().union(*self._held.values())
        free = tuple(digest for digest in digests if digest not in held)
        self._retired |= dict.fromkeys(free)
        for oldest in list(self._retired)[:-_RETIRED]:
            del self._retired[oldest]
        return free
