"""The server of the live page: it follows the runs, and answers browsers that know the token.

Slow work runs in a worker thread, one task at a time. An event stream sends no data of the runs, only the number of the
newest state. A browser that stops reading is disconnected (`actors.gateway.listening`).
"""

import hmac
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import trio

from actors.gateway.listening import serve_clients
from actors.links.faults import RequestFaults
from spade.app.screen.observe import try_read_status
from spade.app.web.following import FollowedRun
from spade.errors import ConfigError, format_reason
from spade.protocol import Status

REFRESH_S = 2.0
"""Least seconds between two refreshes."""
SHARE = 10
"""After a refresh that took a second of processor time, the server pauses for at least SHARE seconds."""
MOST_READERS = 64
"""Most event streams at once."""
MOST_KEPT = 64
"""Most rendered pages that are kept until the state changes."""
ASK_S = 10.0
"""Seconds within which a run must tell its status."""
ALIVE_S = 15.0
"""Seconds after which an event stream without news sends a comment."""
LONGEST_QUERY = 2_000
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

Send = Callable[[dict[str, Any]], Any]
Receive = Callable[[], Any]


class PageAnswer(NamedTuple):
    """The answer to a request."""

    body: bytes
    """The body."""

    kind: str = "text/html; charset=utf-8"
    """The media type."""

    status: int = 200
    """The HTTP status."""

    location: str = ""
    """The address of a redirect, or ""."""


Render = Callable[[str, str, int], PageAnswer]
"""Makes the answer to a path and a query. The third argument is the number of the present state."""


class LivePage:
    """The ASGI application. Every address begins with the token."""

    def __init__(self, runs: Sequence[FollowedRun], render: Render, token: str) -> None:
        self._runs, self._render, self._token = runs, render, token
        self._number = 0
        self._turn = trio.Lock()
        self._kept: dict[tuple[str, str], PageAnswer] = {}
        self._readers: set[trio.MemorySendChannel[int]] = set()

    async def follow(self) -> None:
        """Refresh the runs until cancelled, and wake the readers after a change."""
        while True:
            began = time.process_time()
            statuses = await self._ask_all()
            async with self._turn:
                if await trio.to_thread.run_sync(self._refresh, statuses):
                    self._number += 1
                    self._kept.clear()
            for reader in self._readers:
                # If the channel is full, the reader has not read an older number yet. When it does, it asks for the
                # newest state anyway.
                with suppress(trio.WouldBlock):
                    reader.send_nowait(self._number)
            await trio.sleep(max(REFRESH_S, SHARE * (time.process_time() - began)))

    async def _ask_all(self) -> list[Status | str]:
        """Return the status of each run, or the reason why it cannot be read."""
        found: list[Status | str] = [f"its status cannot be read: no answer within {ASK_S:g} s" for _ in self._runs]

        async def ask(place: int) -> None:
            with trio.move_on_after(ASK_S):
                found[place] = await try_read_status(self._runs[place].run)

        async with trio.open_nursery() as nursery:
            for place in range(len(found)):
                nursery.start_soon(ask, place)
        return found

    def _refresh(self, statuses: Sequence[Status | str]) -> bool:
        changed = [each.refresh(status, time.time()) for each, status in zip(self._runs, statuses, strict=True)]
        return any(changed)

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        token, slash, path = scope["path"].removeprefix("/").partition("/")
        query = scope["query_string"].decode("latin-1")
        if not hmac.compare_digest(token.encode(errors="replace"), self._token.encode()):
            answer = PageAnswer(b"403: the address lacks the token that `spade web` printed\n", "text/plain", 403)
        elif scope["method"] not in ("GET", "HEAD"):
            answer = PageAnswer(b"405: this page is read only\n", "text/plain", 405)
        elif len(query) > LONGEST_QUERY:
            answer = PageAnswer(b"414: the address is too long\n", "text/plain", 414)
        elif not slash:  # relative links of the page need the final slash
            answer = PageAnswer(b"", "text/plain", 308, f"/{self._token}/")
        elif path == "events" and len(self._readers) >= MOST_READERS:
            answer = PageAnswer(b"503: too many readers\n", "text/plain", 503)
        elif path == "events":
            await self._send_events(receive, send)
            return
        else:
            answer = await self._make_answer(path, query)
        await _send_head(send, answer, len(answer.body))
        await send({"type": "http.response.body", "body": answer.body})

    async def _make_answer(self, path: str, query: str) -> PageAnswer:
        """Return the answer to a request. Requests for the same page of the same state share one answer."""
        async with self._turn:
            found = self._kept.get((path, query))
            if found is None:
                found = await trio.to_thread.run_sync(self._render, path, query, self._number)
                if len(self._kept) >= MOST_KEPT:
                    self._kept.clear()
                self._kept[path, query] = found
            return found

    async def _send_events(self, receive: Receive, send: Send) -> None:
        """Send the numbers of new states until the reader leaves. A slow reader may miss numbers, but not the last."""
        await _send_head(send, PageAnswer(b"", "text/event-stream"))
        async with self._read_numbers() as numbers, trio.open_nursery() as nursery:
            nursery.start_soon(_wait_until_gone, receive, nursery.cancel_scope)
            number: int | None = self._number
            while True:
                text = ": nothing new\n\n" if number is None else f"data: {number}\n\n"
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
                number = None
                with trio.move_on_after(ALIVE_S):
                    number = await numbers.receive()

    @asynccontextmanager
    async def _read_numbers(self) -> AsyncIterator[trio.MemoryReceiveChannel[int]]:
        """Yield the numbers of new states, at most one of them unread."""
        sender, receiver = trio.open_memory_channel[int](1)
        self._readers.add(sender)
        try:
            yield receiver
        finally:
            self._readers.remove(sender)


async def _wait_until_gone(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _send_head(send: Send, answer: PageAnswer, length: int | None = None) -> None:
    headers = _HEADERS | {"content-type": answer.kind} | ({} if length is None else {"content-length": str(length)})
    headers |= {"location": answer.location} if answer.location else {}
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": encoded})


async def listen(host: str, port: int) -> list[trio.SocketListener]:
    """Open listeners at an address. Raises ConfigError if this fails."""
    try:
        return await trio.open_tcp_listeners(port, host=host)
    except (OSError, UnicodeError) as error:
        why = format_reason(error)
        raise ConfigError(f"--host {host}, --port {port}: cannot listen there ({why}); take another port") from None


async def serve_page(page: LivePage, listeners: list[trio.SocketListener]) -> None:
    """Follow the runs and serve the page until cancelled."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(page.follow)
        await serve_clients(page, listeners, RequestFaults())
