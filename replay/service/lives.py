"""The lives of named processes: once the service has seen one, it refuses all older ones of its name.

A supervisor draws a number when it begins, so that its processes are newer than those of any supervisor before it. An
older process may still be there: stopped, cut off, or of a supervisor that was killed. What is noted here is committed
before any request of the newer life is acknowledged, so a service that is started again refuses the older one too.
"""

from replay.ledger.state import RunState
from replay.store.load import KnownLives
from replay.store.store import Store
from spade.protocol import Hello, LifeNumber

MOST = 4_096  # names; of more those are forgotten whose newest life began the longest ago


class Lives:
    """The lives that the service has seen, over all its restarts."""

    def __init__(self, state: RunState, store: Store) -> None:
        self._state = state
        self._known = store.get("meta", "lives", KnownLives) or KnownLives()

    def enroll(self) -> int:
        """The number of another supervisor."""
        self._known.supervisors += 1
        self._touch()
        return self._known.supervisors

    def over(self, hello: Hello) -> str:
        """The reason why this life of its name is refused; "" if there is no newer one."""
        newest = self._known.newest.get(hello.name)
        return "" if newest is None or hello.life >= newest else hello.life.over(hello.name, newest)

    def note(self, hello: Hello) -> bool:
        """Note a life that is not over; True if it is newer than any of its name before."""
        newest = self._known.newest
        if hello.life <= newest.get(hello.name, LifeNumber()):
            return False
        newest.pop(hello.name, None)
        newest[hello.name] = hello.life
        if len(newest) > MOST:
            # First those of hosts that joined, so that none of these can have the run's own processes forgotten.
            del newest[next((name for name in newest if "@" in name), next(iter(newest)))]
        self._touch()
        return True

    def _touch(self) -> None:
        self._state.touch("meta", "lives", self._known)
