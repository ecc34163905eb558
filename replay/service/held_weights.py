"""Track which folders of weights the engines hold, so that the learner deletes only other folders. Pure.

File locks would be enough on one machine, but a shared file system may not pass locks on to other machines.
"""

from collections.abc import Collection, Iterable

_RETIRED = 1_024  # number of retired digests that are remembered; no engine asks for weights older than these


class EngineWeights:
    """The weights that engines hold, by their reports since the service started.

    `start` is the start on the run clock. `silence_s` later, every live engine has reported.
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
        """Record that these weights are the newest. If they were retired before, they no longer are."""
        self._retired.pop(digest, None)

    def retire(self, digests: Iterable[str], engines: Collection[str], now: float) -> tuple[str, ...]:
        """Retire those of the weights that no engine holds. From then on `hold` refuses them.

        `engines`: names of the connected engines. Returns the retired digests: none before every engine has reported.
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
