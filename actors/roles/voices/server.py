"""A server with OpenAI's chat API. If a failure may pass, the request is tried again. Other failures are errors."""

import ssl
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, TypeVar

import httpx2
import msgspec
import trio

from spade.decoding import UnreadableError, try_decode
from spade.errors import BusError, ConfigError
from spade.text import as_line

MOST_BYTES = 16 << 20
"""Bytes of an answer."""
TRIES = 4
"""Tries of one request."""
_WAITS_S = (1.0, 4.0, 15.0)  # before another try
_SHOWN = 300
_OK = 200

T = TypeVar("T")


class ServerError(BusError):
    """A request that a server did not serve. `status` is HTTP's, None without an answer."""

    def __init__(self, message: str, status: int | None = None, body: bytes = b"") -> None:
        super().__init__(message)
        self.status = status
        self.body = body

    @property
    def passing(self) -> bool:
        """Return True if the same request may be served later."""
        return self.status is None or self.status in (408, 409, 425, 429) or self.status >= 500

    @property
    def overlong(self) -> bool:
        """Return True if the request does not fit the model's context, in the words of known servers."""
        said = self.body.lower()
        return self.status == 400 and (b"context_length" in said or b"context length" in said)


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class ChatServer:
    """The API at `url`, for example http://127.0.0.1:8000/v1.

    An async context manager. If `key` is "", no key is sent.
    """

    def __init__(self, url: str, key: str, deadline_s: float) -> None:
        self.url = url.rstrip("/")
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._deadline_s = deadline_s
        # Only the transport: a client would also use cookies, the shell's proxies, and redirects.
        self._transport = httpx2.AsyncHTTPTransport(verify=ssl.create_default_context(), limits=httpx2.Limits())

    async def __aenter__(self) -> "ChatServer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._transport.aclose()

    async def chat(self, body: Mapping[str, Any]) -> bytes:
        """Return the body of the answer to a chat. Raises ServerError if TRIES tries fail."""
        content = msgspec.json.encode(body)
        for wait_s in _WAITS_S:
            try:
                return await self._ask("POST", "/chat/completions", content)
            except ServerError as error:
                if not error.passing:
                    raise
            await trio.sleep(wait_s)
        return await self._ask("POST", "/chat/completions", content)

    async def model(self, name: str) -> str:
        """Return the model called `name`, or the only model if `name` is "".

        Raises ConfigError if the server lacks it.
        """
        try:
            models = parse_answer(self.url, await self._ask("GET", "/models"), _Models)
        except ServerError as error:
            if name and error.status in (404, 405):
                return name  # a server that does not list its models
            raise ConfigError(str(error)) from None
        known = [model.id for model in models.data]
        if not name and len(known) == 1:
            return known[0]
        if name not in known:
            listed = ", ".join(as_line(each, 80) for each in known[:10]) or "nothing"
            raise ConfigError(f"{self.url} serves {listed}; name one of these")
        return name

    async def _ask(self, method: str, path: str, content: bytes | None = None) -> bytes:
        answer = bytearray()
        try:
            with trio.fail_after(self._deadline_s):
                request = httpx2.Request(method, self.url + path, headers=self._headers, content=content)
                async with aclosing(await self._transport.handle_async_request(request)) as response:
                    async for part in response.aiter_raw():
                        answer += part
                        if len(answer) > MOST_BYTES:
                            raise ServerError(f"{self.url} answers with more than {MOST_BYTES} bytes", 502)
        except trio.TooSlowError:
            raise ServerError(f"{self.url} gives no answer within {self._deadline_s:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:  # UnicodeError: an invalid host name
            raise ServerError(f"{self.url}: {str(error) or type(error).__name__}") from None
        if response.status_code != _OK:
            said = " ".join(bytes(answer[:_SHOWN]).decode(errors="replace").split())
            raise ServerError(
                f"{self.url}{path} answers {response.status_code}: {as_line(said, _SHOWN)}",
                response.status_code,
                bytes(answer),
            )
        return bytes(answer)


def parse_answer(url: str, answer: bytes, kind: type[T]) -> T:
    """Parse an answer. Raises ServerError."""
    try:
        return try_decode(msgspec.json.Decoder(kind).decode, answer)
    except UnreadableError as error:
        raise ServerError(f"{url} does not speak OpenAI's API: {error}", 502) from None
