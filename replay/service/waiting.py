"""Waiting requests: kept until an answer is ready, their time is over, or their peer is gone."""

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

PATIENCE = 2  # a peer may have twice its window of requests waiting: open ones, and ones that it has given up

# For a BatchRecord or GetNewestPrograms, the message is read from the store when it is sent.
Answer = Response | BatchRecord | GetNewestPrograms
Replies = list[tuple[IncomingRequest, Answer]]


class WaitingRequests:
    """The waiting requests, tried again in the order they came, so that peers do not poll. Bounded for each peer."""

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

        `answer` returns None if a request must go on waiting. `why` explains why a batch waits. `peers` are the
        connected peers.
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
