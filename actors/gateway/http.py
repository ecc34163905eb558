"""The ASGI application: it checks a client's request, passes it to its route, and sends the answer."""

import hmac
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import trio

from actors.gateway.answers import make_error_body
from actors.gateway.errors import LATER_S, AskError
from actors.gateway.routes import JSON, ResponseBody, Routes, as_json
from actors.links.faults import RequestFaults
from spade.config import is_loopback
from spade.errors import unwrap_errors
from spade.text import as_line

log = logging.getLogger(__name__)

MOST_BODY = 8 << 20
"""Most bytes of one body."""
MOST_BODIES = 128 << 20
"""Most bytes of all bodies in memory at once."""
BODY_S = 30.0
"""Most seconds until a body has arrived."""

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
_MODEL = "/v1/models/"  # a model's name follows and may contain slashes
_SHOWN = 60  # characters of a client's text in an answer
_AFTER = (401, 408, 413)  # after these errors, the rest of the body is not read
_LENGTHS = {b"content-length", b"transfer-encoding"}  # if a request has both, a proxy may see another end of the body


class GoneError(Exception):
    """The client closed the connection."""


class Application:
    """The ASGI application. `key` is the clients' key. If it is "", a request's host must be a loopback name."""

    def __init__(self, routes: Routes, key: str, faults: RequestFaults) -> None:
        self._key = key.encode()
        self._faults = faults
        self._held = 0
        self._get: Mapping[str, Callable[[], ResponseBody]] = {"/v1/models": routes.models, "/health": routes.health}
        self._model = routes.model
        self._post: Mapping[str, Callable[[bytes], Awaitable[ResponseBody]]] = {
            "/v1/chat/completions": routes.chat,
            "/v1/completions": routes.completions,
        }

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        request_headers = {name.lower(): value for name, value in scope["headers"]}
        status, headers = HTTPStatus.OK, dict[bytes, bytes]()
        try:
            answer = await self._answer(scope, request_headers, receive)
        except GoneError:
            return
        except AskError as error:
            answer, status = as_json(make_error_body(error)), HTTPStatus(error.status)
            if error.status in (429, 503):
                headers[b"retry-after"] = str(LATER_S).encode()
            if error.status in _AFTER or request_headers.keys() >= _LENGTHS:
                headers[b"connection"] = b"close"
        except Exception as error:
            unforeseen = AskError(500, self._faults.note(self, error))
            answer, status = as_json(make_error_body(unforeseen)), HTTPStatus.INTERNAL_SERVER_ERROR
        headers |= {b"content-type": answer.kind.encode(), b"content-length": str(len(answer.body)).encode()}
        await send({"type": "http.response.start", "status": int(status), "headers": list(headers.items())})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope: Mapping[str, Any], headers: Mapping[bytes, bytes], receive: Receive) -> ResponseBody:
        """Answer a request. Raises AskError, or GoneError if the client hung up."""
        method, path = scope["method"], scope["path"].rstrip("/")
        self._admit(headers, path)
        if headers.keys() >= _LENGTHS:
            raise AskError(400, "a body has a content-length or is chunked, not both")
        name = scope["path"].removeprefix(_MODEL) if path.startswith(_MODEL) else None
        if method in ("GET", "HEAD") and path in self._get:
            return self._get[path]()
        if method in ("GET", "HEAD") and name is not None:
            return self._model(name)
        if path not in self._post:
            found = path in self._get or name is not None
            raise AskError(
                405 if found else 404, f"{scope['path'][:100]!r}: {'only GET' if found else 'no such route'}"
            )
        if method != "POST":
            raise AskError(405, f"{path}: only POST")
        # A web page can make a browser post some other content types here without a preflight request.
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != JSON.encode():
            raise AskError(415, f"the body's content-type must be {JSON}")
        coding = headers.get(b"content-encoding", b"identity").strip().lower()
        if coding not in (b"identity", b""):
            shown = as_line(coding.decode("latin-1"), _SHOWN)
            raise AskError(415, f"the body has content-encoding {shown}: bodies are not decompressed; send it without")
        with self._count_body() as held:
            data = await _read_body(headers, receive, held)
            return await _run_unless_gone(receive, self._post[path], data)

    def _admit(self, headers: Mapping[bytes, bytes], path: str) -> None:
        """Raise AskError if the client may not use the server."""
        if not self._key:
            host = headers.get(b"host", b"localhost").decode("latin-1")
            if not is_loopback(host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host):
                # DNS rebinding: a web page was loaded under another name, which now resolves to this machine.
                raise AskError(403, "this server has no key, so it serves only requests to localhost")
        elif path != "/health":
            kind, _, given = headers.get(b"authorization", b"").partition(b" ")
            if kind.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self._key):
                raise AskError(401, "the key is missing or wrong", code="invalid_api_key")

    @contextmanager
    def _count_body(self) -> Iterator[Callable[[int], None]]:
        """Count the bytes of a body while it is in memory.

        The yielded function raises AskError if they are too many.
        """
        mine = 0

        def held(count: int) -> None:
            nonlocal mine
            if self._held + count > MOST_BODIES:
                raise AskError(503, "too many large requests at once; try again later")
            mine, self._held = mine + count, self._held + count

        try:
            yield held
        finally:
            self._held -= mine


async def _read_body(headers: Mapping[bytes, bytes], receive: Receive, held: Callable[[int], None]) -> bytes:
    """Read the whole body. Raises AskError, GoneError."""
    declared = headers.get(b"content-length", b"0")
    if not declared.isdigit() or len(declared) > 12 or int(declared) > MOST_BODY:
        raise AskError(413, f"a body may have at most {MOST_BODY} bytes")
    parts, size = list[bytes](), 0
    with trio.move_on_after(BODY_S):
        while True:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise GoneError
            part = event.get("body", b"")
            size += len(part)
            if size > MOST_BODY:
                raise AskError(413, f"a body may have at most {MOST_BODY} bytes")
            held(len(part))
            parts.append(part)
            if not event.get("more_body"):
                return b"".join(parts)
    raise AskError(408, f"the body did not come within {BODY_S:g} s")


async def _run_unless_gone(
    receive: Receive, route: Callable[[bytes], Awaitable[ResponseBody]], data: bytes
) -> ResponseBody:
    """Return the route's answer. If the client hangs up first, cancels the work and raises GoneError."""
    answer: ResponseBody | None = None
    async with unwrap_errors(trio.open_nursery()) as nursery:

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        answer = await route(data)
    if answer is None:
        raise GoneError
    return answer
