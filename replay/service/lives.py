"""The lives of named processes. A life is one start of a process. Once the service has seen a life, it refuses all
older lives of the same name.

A supervisor draws a number when it begins. The number makes its processes newer than the processes of any earlier
supervisor. An older process may still exist: it is suspended, was cut off from the network, or its supervisor was
killed. A new life is committed before any of its requests is acknowledged. So a restarted service also refuses all
older lives.
"""

from replay.ledger.state import RunState
from replay.store.load import KnownLives
from replay.store.store import Store
from spade.protocol import Hello, LifeNumber

MOST = 4_096  # most names that are kept; the names whose last start is longest ago are forgotten first


class Lives:
    """The lives that the service has seen, over all its restarts."""

    def __init__(self, state: RunState, store: Store) -> None:
        self._state = state
        self._known = store.get("meta", "lives", KnownLives) or KnownLives()

    def enroll(self) -> int:
        """Return a number for a new supervisor."""
        self._known.supervisors += 1
        self._touch()
        return self._known.supervisors

    def over(self, hello: Hello) -> str:
        """Explain why this life is refused. Returns "" if no newer life of its name was seen."""
        newest = self._known.newest.get(hello.name)
        return "" if newest is None or hello.life >= newest else hello.life.over(hello.name, newest)

    def note(self, hello: Hello) -> bool:
        """Record the life of a running process. Returns True if no life of its name was as new before."""
        newest = self._known.newest
        if hello.life <= newest.get(hello.name, LifeNumber()):
            return False
        newest.pop(hello.name, None)
        newest[hello.name] = hello.life
        if len(newest) > MOST:
            # Forget processes of hosts that joined first ("@" in the name). So such a host cannot push out the names
            # of the run's own processes.
            del newest[next((name for name in newest if "@" in name), next(iter(newest)))]
        self._touch()
        return True

    def _touch(self) -> None:
        self._state.touch("meta", "lives", self._known)
