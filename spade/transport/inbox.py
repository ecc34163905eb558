"""Requests that wait for the service, in the order of their arrival. Each peer may have a bounded number."""

from collections import Counter, deque

import msgspec
import trio

from spade.protocol import AnyRequest, Hello


class IncomingRequest(msgspec.Struct, frozen=True):
    """A request as a service sees it."""

    peer: bytes
    """Routing id of the sender."""

    hello: Hello
    """Greeting of the sender."""

    id: int
    """The sender's number of the request, which the reply repeats."""

    message: AnyRequest
    """The request itself."""


class Inbox:
    """A queue of requests, at most `most` for each peer."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._requests: deque[IncomingRequest] = deque()
        self._waiting: Counter[bytes] = Counter()
        self._receivers = trio.lowlevel.ParkingLot()

    def put(self, incoming: IncomingRequest) -> bool:
        """Add a request. Returns False if `most` requests of its peer wait already."""
        if self._waiting[incoming.peer] >= self.most:
            return False
        self._waiting[incoming.peer] += 1
        self._requests.append(incoming)
        self._receivers.unpark()
        return True

    async def take(self) -> IncomingRequest:
        """Wait for the next request."""
        await trio.lowlevel.checkpoint()
        while not self._requests:
            await self._receivers.park()
        return self._pop()

    def take_nowait(self) -> IncomingRequest | None:
        """Return the next request, or None if the queue is empty."""
        return self._pop() if self._requests else None

    def forget(self, peer: bytes) -> None:
        """Drop the waiting requests of a peer."""
        if not self._waiting.pop(peer, 0):
            return
        self._requests = deque(incoming for incoming in self._requests if incoming.peer != peer)

    def _pop(self) -> IncomingRequest:
        incoming = self._requests.popleft()
        self._waiting[incoming.peer] -= 1
        return incoming
