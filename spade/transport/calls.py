"""Calls: requests that wait for their replies, a window of them at once, each kept until then to be sent again."""

from collections.abc import Callable, Iterator

import trio

from spade.protocol import Refused, Response


class _Call:
    """A request that is kept until its reply. `once`: or until the end of the first service it was `sent` to."""

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
    """The calls of one client, whatever becomes of its session.

    numbers  of all that the client sends, so that a reply finds its call by the number alone
    send     a payload under its number; False where it did not go, as while there is no session
    """

    def __init__(self, window: int, numbers: Iterator[int], send: Callable[[int, bytes], bool]) -> None:
        self._places = trio.Semaphore(window)
        self._numbers = numbers
        self._send = send
        self._open: dict[int, _Call] = {}
        self._refusal: Refused | None = None

    async def reply(self, payload: bytes, once: bool = False) -> Response | None:
        """Wait for a place in the window, then for the reply, whenever it comes.

        None: it was to be sent `once`, and the service that it was sent to has ended.
        """
        async with self._places:
            if self._refusal is not None:
                return self._refusal
            number = next(self._numbers)
            call = self._open[number] = _Call(payload, once)
            try:
                call.sent = self._send(number, payload)  # where it does not go now, `send_again` sends it
                await call.answered.wait()
            finally:
                del self._open[number]
        return call.response

    def answer(self, number: int, response: Response) -> None:
        """Take a reply. A second one, or one to a call that was given up, is ignored."""
        call = self._open.get(number)
        if call is not None:
            call.answer(response)

    def send_again(self) -> None:
        """Send all that have no reply, as far as it goes."""
        for number, call in self._open.items():
            if call.answered.is_set():
                continue
            if not self._send(number, call.payload):
                return
            call.sent = True

    def ended(self) -> None:
        """The service has ended: calls to be sent once, and sent already, get no reply."""
        for call in self._open.values():
            if call.once and call.sent:
                call.answered.set()

    def refuse(self, refusal: Refused) -> None:
        """The reply to all that have none, and to all that come."""
        self._refusal = refusal
        for call in self._open.values():
            call.answer(refusal)
