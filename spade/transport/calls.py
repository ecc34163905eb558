"""Calls: requests that wait for their replies, a window of them at once, each kept until then to be sent again."""

from collections.abc import Callable, Iterator

import trio

from spade.protocol import Refused, Response


class _Call:
    """A request that is kept until its reply."""

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
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

    async def reply(self, payload: bytes) -> Response:
        """Wait for a place in the window, then for the reply, whenever it comes."""
        async with self._places:
            if self._refusal is not None:
                return self._refusal
            number = next(self._numbers)
            call = self._open[number] = _Call(payload)
            try:
                self._send(number, payload)  # where it does not go now, `send_again` sends it
                await call.answered.wait()
            finally:
                del self._open[number]
        assert call.response is not None
        return call.response

    def answer(self, number: int, response: Response) -> None:
        """A reply has come; nobody waits for a second one, or for one to a call that was given up."""
        call = self._open.get(number)
        if call is not None:
            call.answer(response)

    def send_again(self) -> None:
        """Send all that have no reply, as far as it goes."""
        for number, call in self._open.items():
            if not (call.answered.is_set() or self._send(number, call.payload)):
                return

    def refuse(self, refusal: Refused) -> None:
        """The reply to all that have none, and to all that come."""
        self._refusal = refusal
        for call in self._open.values():
            call.answer(refusal)
