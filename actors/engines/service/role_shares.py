"""The order of sampling: each role has its share of an engine's rows, however much the others ask. Pure, no clock."""

from collections import Counter, deque
from itertools import count

from spade.protocol import Role

_KEPT = 8  # of this many rows, one is kept free of a role that is alone, for others to come
_AHEAD = 8  # for this many rows, one more request begins, so that a row that ends has its next one at hand


class RoleShares:
    """Requests by role: those that wait, in order of arrival, and how many have begun.

    The role with the fewest begun requests comes next, so that roles which all have requests waiting come to hold as
    many rows each. No role ever holds all rows: long requests are not interrupted, so a request of another role would
    wait for the first of them to end.
    """

    def __init__(self, rows: int) -> None:
        self._most = rows - max(rows // _KEPT, 1) if rows > 1 else 1  # of one role
        self._all = rows + rows // _AHEAD
        self._order = count()
        self._waiting: dict[Role, deque[tuple[int, int]]] = {}  # (order of arrival, number)
        self._begun: dict[int, Role] = {}
        self._counts: Counter[Role] = Counter()

    def ask(self, number: int, role: Role) -> None:
        """A request arrived."""
        self._waiting.setdefault(role, deque()).append((next(self._order), number))

    def begin(self) -> int | None:
        """The request to be sampled next, None where none waits or none may begin."""
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
        """A request is over, whether it had begun or not."""
        role = self._begun.pop(number, None)
        if role is not None:
            self._counts[role] -= 1
            return
        for each, waiting in self._waiting.items():
            self._waiting[each] = deque(asked for asked in waiting if asked[1] != number)

    @property
    def begun(self) -> int:
        """Number of requests that have begun and are not over."""
        return len(self._begun)

    @property
    def waiting(self) -> dict[Role, int]:
        """Number of waiting requests, for each role that has ever asked."""
        return {role: len(waiting) for role, waiting in self._waiting.items()}
