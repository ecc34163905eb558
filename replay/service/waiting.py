"""Requests that wait until an answer is ready, their deadline passes, or their sender disconnects."""

import math
from collections import Counter
from collections.abc import Callable, Container

from replay.ledger.records import BatchRecord
from spade.protocol import (
    AnyRequest,
    Audits,
    Designs,
    GetNewestPrograms,
    LeaseAudit,
    LeaseDesigns,
    LeasePlays,
    NotYet,
    Plays,
    Refused,
    Response,
    TakeBatch,
)
from spade.transport import IncomingRequest

PATIENCE = 2  # a peer with a window of n open requests may have 2 n waiting here, because it may have given up on some

# A BatchRecord or GetNewestPrograms stands for a message that is read from the store when it is sent.
Answer = Response | BatchRecord | GetNewestPrograms
Replies = list[tuple[IncomingRequest, Answer]]


class WaitingRequests:
    """The waiting requests. They are tried again in the order they came, so that peers need not poll.

    A peer may have at most PATIENCE * `window` waiting requests.
    """

    def __init__(self, window: int) -> None:
        self._most = PATIENCE * window
        self._kept: dict[tuple[bytes, int], tuple[IncomingRequest, float]] = {}
        self._count: Counter[bytes] = Counter()  # by peer

    def deadline(self) -> float:
        """Return the earliest deadline of the waiting requests."""
        return min((deadline for _, deadline in self._kept.values()), default=math.inf)

    def keep(self, incoming: IncomingRequest, now: float) -> Refused | None:
        """Keep a request, or refuse it. A request that is sent again replaces its first copy."""
        request, key = incoming.message, (incoming.peer, incoming.id)
        assert isinstance(request, LeasePlays | LeaseDesigns | LeaseAudit | TakeBatch), (
            f"{type(request).__name__} cannot wait"
        )
        if self._count[incoming.peer] >= self._most:
            return Refused(f"{self._most} of your requests wait already")
        self._count[incoming.peer] += key not in self._kept
        self._kept[key] = (incoming, now + request.wait_s)
        return None

    def try_again(
        self,
        answer: Callable[[IncomingRequest, float], Answer | None],
        why: Callable[[], str],
        peers: Container[bytes],
        now: float,
    ) -> Replies:
        """Try to answer each waiting request. Remove and return those with an answer, and those past their deadline.

        Drops requests of senders that are not in `peers`, the connected ones. `answer` returns None if a request must
        go on waiting. `why` explains why no batch is ready.
        """
        replies: Replies = []
        for key, (incoming, deadline) in list(self._kept.items()):
            if incoming.peer not in peers:
                self._drop(key)
                continue
            response = answer(incoming, now)
            if response is None and now >= deadline:
                response = _answer_nothing(incoming.message, why)
            if response is not None:
                self._drop(key)
                replies.append((incoming, response))
        return replies

    def _drop(self, key: tuple[bytes, int]) -> None:
        peer, _ = key
        del self._kept[key]
        self._count[peer] -= 1
        if not self._count[peer]:
            del self._count[peer]


def _answer_nothing(request: AnyRequest, why: Callable[[], str]) -> Response:
    match request:
        case LeasePlays():
            return Plays()
        case LeaseDesigns():
            return Designs()
        case LeaseAudit():
            return Audits()
        case _:
            return NotYet(why())
