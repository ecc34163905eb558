"""The lives of named processes. A life is one start of a process. Once the service has seen a life, it refuses all
older lives of the same name.

A supervisor draws a number when it begins, so that its processes are newer than any earlier supervisor's. An older
process may still exist: stopped, cut off, or started by a supervisor that was killed. A life that is noted here is
committed before any request of this life is acknowledged. So a restarted service refuses the older lives too.
"""

from replay.ledger.state import RunState
from replay.store.load import KnownLives
from replay.store.store import Store
from spade.protocol import Hello, LifeNumber

MOST = 4_096  # most names that are kept; beyond it, the names that have not started for longest are forgotten


class Lives:
    """The lives that the service has seen, over all its restarts."""

    def __init__(self, state: RunState, store: Store) -> None:
        self._state = state
        self._known = store.get("meta", "lives", KnownLives) or KnownLives()

    def enroll(self) -> int:
        """Return the number of another supervisor."""
        self._known.supervisors += 1
        self._touch()
        return self._known.supervisors

    def over(self, hello: Hello) -> str:
        """Explain why this life is refused; "" if it is the newest of its name."""
        newest = self._known.newest.get(hello.name)
        return "" if newest is None or hello.life >= newest else hello.life.over(hello.name, newest)

    def note(self, hello: Hello) -> bool:
        """Record the life of a running process. Returns True if it is newer than any earlier life of its name."""
        newest = self._known.newest
        if hello.life <= newest.get(hello.name, LifeNumber()):
            return False
        newest.pop(hello.name, None)
        newest[hello.name] = hello.life
        if len(newest) > MOST:
            # First forget processes of hosts that joined, so that these hosts cannot make the run's own processes be
            # forgotten.
            del newest[next((name for name in newest if "@" in name), next(iter(newest)))]
        self._touch()
        return True

    def _touch(self) -> None:
        self._state.touch("meta", "lives", self._known)
