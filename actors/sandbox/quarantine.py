"""Programs that fault again and again are run no more: they cost a child each time and teach nothing."""

from collections import OrderedDict
from hashlib import blake2b

from spade.protocol import Faulted, Observed

PROGRAMS = 4_096


class Quarantine:
    """Faults in a row of the programs run last, by the digest of their source."""

    def __init__(self, faults: int) -> None:
        self._limit = faults
        self._rows: OrderedDict[bytes, int] = OrderedDict()
        self._last: dict[bytes, Faulted] = {}

    def refusal(self, source: str) -> Faulted | None:
        """The fault that a quarantined program gets without being run."""
        key = digest(source)
        if self._rows.get(key, 0) < self._limit:
            return None
        last = self._last[key]
        return Faulted(last.kind, f"quarantined after {self._limit} faults in a row, the last of them: {last.detail}")

    def note(self, source: str, answer: Observed | Faulted) -> None:
        """Take the end of an episode: a fault of the program counts, an end of its play starts the count again."""
        key = digest(source)
        if isinstance(answer, Faulted):
            if answer.environment_fault:
                self._rows[key] = self._rows.pop(key, 0) + 1
                self._last[key] = answer
        else:
            self._rows.pop(key, None)
            self._last.pop(key, None)
        while len(self._rows) > PROGRAMS:
            oldest, _ = self._rows.popitem(last=False)
            del self._last[oldest]


def digest(source: str) -> bytes:
    return blake2b(source.encode(errors="backslashreplace"), digest_size=16).digest()
