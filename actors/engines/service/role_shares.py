"""Decide which request begins next. Each role gets its share of an engine's rows, however much other roles ask."""

from collections import Counter, deque
from itertools import count

from spade.protocol import Role

_KEPT = 8  # one role never fills the last eighth of the rows (at least one), so that another role can begin immediately
_AHEAD = 8  # for every eight rows, the engine gets one more request, so that a freed row is filled immediately


class RoleShares:
    """Requests by role: the waiting ones in order of arrival, and the number that have begun.

    The role with the fewest begun requests comes next. So if several roles have waiting requests, each gets equally
    many rows. Running requests are never interrupted, so a role with all rows would make the other roles wait. For this
    reason no role may hold all rows, unless the engine has only one row.
    """

    def __init__(self, rows: int) -> None:
        self._most = rows - max(rows // _KEPT, 1) if rows > 1 else 1  # most rows that one role may use
        self._all = rows + rows // _AHEAD
        self._order = count()
        self._waiting: dict[Role, deque[tuple[int, int]]] = {}  # (order of arrival, number)
        self._begun: dict[int, Role] = {}
        self._counts: Counter[Role] = Counter()

    def ask(self, number: int, role: Role) -> None:
        """Add a request that arrived."""
        self._waiting.setdefault(role, deque()).append((next(self._order), number))

    def begin(self) -> int | None:
        """Start and return the next request to sample. Returns None if none waits or none may begin."""
        if len(self._begun) >= self._all:
            return None
        ready = [role for role, waiting in self._waiting.items() if waiting and self._counts[role] < self._most]
        if not ready:
            return None
        role = min(ready, key=lambda role: (self._counts[role], self._waiting[role][0]))
        _, number = self._waiting[role].popleft()
        self._begun[number] = role
        self._counts[role] += 1
        return number

    def end(self, number: int) -> None:
        """Remove a request that is over, whether it had begun or not."""
        role = self._begun.pop(number, None)
        if role is not None:
            self._counts[role] -= 1
            return
        for each, waiting in self._waiting.items():
            self._waiting[each] = deque(asked for asked in waiting if asked[1] != number)

    @property
    def begun(self) -> int:
        """Return the number of requests that have begun and are not over."""
        return len(self._begun)

    @property
    def waiting(self) -> dict[Role, int]:
        """Return the number of waiting requests for each role that has ever asked."""
        return {role: len(waiting) for role, waiting in self._waiting.items()}
