"""Calls: requests that wait for their replies, at most a window of them at once.

Each call is kept until its reply, so that it can be sent again.
"""

from collections.abc import Callable, Iterator

import trio

from spade.protocol import Refused, Response


class _Call:
    """A request, kept until its reply.

    A `once` call also ends, without a reply, if the service that received it has crashed.
    """

    def __init__(self, payload: bytes, once: bool) -> None:
        self.payload = payload
        self.once = once
        self.sent = False
        self.answered = trio.Event()
        self.response: Response | None = None

    def answer(self, response: Response) -> None:
        if not self.answered.is_set():  # a request sent again may be answered twice: the first reply counts
            self.response = response
            self.answered.set()


class Calls:
    """The calls of one client, across all its sessions.

    `numbers` counts everything that the client sends, so that a number alone identifies a call. `send` sends a payload
    under its number, and returns False if it cannot, for example without a session.
    """

    def __init__(self, window: int, numbers: Iterator[int], send: Callable[[int, bytes], bool]) -> None:
        self._places = trio.Semaphore(window)
        self._numbers = numbers
        self._send = send
        self._open: dict[int, _Call] = {}
        self._refusal: Refused | None = None

    async def reply(self, payload: bytes, once: bool = False) -> Response | None:
        """Wait for a place in the window, then return the reply.

        Returns None if the request was `once` and the service that received it has crashed.
        """
        async with self._places:
            if self._refusal is not None:
                return self._refusal
            number = next(self._numbers)
            call = self._open[number] = _Call(payload, once)
            try:
                call.sent = self._send(number, payload)  # if this fails, `send_again` sends it later
                await call.answered.wait()
            finally:
                del self._open[number]
        return call.response

    def answer(self, number: int, response: Response) -> None:
        """Accept a reply. Ignores a second reply, and a reply to a call that was given up."""
        call = self._open.get(number)
        if call is not None:
            call.answer(response)

    def send_again(self) -> None:
        """Send all calls without a reply, until one cannot be sent."""
        for number, call in self._open.items():
            if call.answered.is_set():
                continue
            if not self._send(number, call.payload):
                return
            call.sent = True

    def ended(self) -> None:
        """End the `once` calls that were sent, because the service that received them has crashed."""
        for call in self._open.values():
            if call.once and call.sent:
                call.answered.set()

    def refuse(self, refusal: Refused) -> None:
        """Answer all open and future calls with this refusal."""
        self._refusal = refusal
        for call in self._open.values():
            call.answer(refusal)
