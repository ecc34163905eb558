"""A client of external servers of OpenAI's HTTP API. It runs under trio and under asyncio."""

import ssl
from contextlib import aclosing
from http import HTTPStatus
from typing import TypeVar

import anyio
import httpx2
import msgspec

from spade.decoding import UnreadableError, try_decode
from spade.errors import BusError, ConfigError
from spade.text import as_line

_SHOWN = 300

T = TypeVar("T")


class ServerError(BusError):
    """A request that a server did not serve. `status` is the HTTP status, or None without an answer."""

    def __init__(self, message: str, status: int | None = None, body: bytes = b"") -> None:
        super().__init__(message)
        self.status = status
        self.body = body

    @property
    def passing(self) -> bool:
        """Return True if the same request may succeed later."""
        return self.status is None or self.status in (408, 409, 425, 429) or self.status >= 500

    @property
    def overlong(self) -> bool:
        """Return True if the answer says, as known servers do, that the request does not fit the model's context."""
        body = self.body.lower()
        return self.status == HTTPStatus.BAD_REQUEST and (b"context_length" in body or b"context length" in body)


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class OpenAIClient:
    """The API at `url`, for example http://127.0.0.1:8000/v1.

    If `key` is "", no key is sent.
    """

    most_bytes = 64 << 20
    """Most bytes of an answer. A token with its log-probability and its share of the prompt takes about 200 bytes."""
    most_idle: int | None = 0
    """Most connections that are kept open for later requests. None keeps any number."""

    def __init__(self, url: str, key: str, deadline_s: float) -> None:
        self.url = url.rstrip("/")
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._deadline_s = deadline_s
        # A client of httpx2 would also use cookies, the proxies of the environment, and redirects.
        limits = httpx2.Limits(max_keepalive_connections=self.most_idle)
        self._transport = httpx2.AsyncHTTPTransport(verify=ssl.create_default_context(), limits=limits)

    async def ask(self, method: str, path: str, content: bytes | None = None) -> bytes:
        """Send a request and return the body of the answer. A connection closes if its request is cancelled.

        Raises ServerError for an HTTP error, and if there is no complete answer within the deadline.
        """
        answer = bytearray()
        try:
            with anyio.fail_after(self._deadline_s):
                request = httpx2.Request(method, self.url + path, headers=self._headers, content=content)
                async with aclosing(await self._transport.handle_async_request(request)) as response:
                    async for part in response.aiter_raw():
                        answer += part
                        if len(answer) > self.most_bytes:
                            raise ServerError(f"{self.url} answers with more than {self.most_bytes} bytes", 502)
        except TimeoutError:
            raise ServerError(f"{self.url} gives no answer within {self._deadline_s:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:  # UnicodeError: an invalid host name
            raise ServerError(f"{self.url}: {str(error) or type(error).__name__}") from None
        if response.status_code != HTTPStatus.OK:
            text = as_line(" ".join(answer[:_SHOWN].decode(errors="replace").split()), _SHOWN)
            failed = f"{self.url}{path} answers {response.status_code}: {text}"
            raise ServerError(failed, response.status_code, bytes(answer))
        return bytes(answer)

    async def find_model(self, name: str, setting: str = "") -> str:
        """Return the model called `name`, or the server's only model if `name` is "".

        Raises ConfigError, whose text begins with `setting`, if the server does not have the model. Raises ServerError.
        """
        known = read_models(self.url, await self.ask("GET", "/models"))
        if not name and len(known) == 1:
            return known[0]
        if name not in known:
            listed = ", ".join(as_line(each, 80) for each in known[:10]) or "nothing"
            raise ConfigError(f"{setting}{self.url} serves {listed}; name one of these")
        return name

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.aclose()


def read_models(url: str, answer: bytes) -> list[str]:
    """Parse a list of models. Raises ServerError."""
    return [model.id for model in parse_answer(url, answer, _Models).data]


def parse_answer(url: str, answer: bytes, kind: type[T], api: str = "API") -> T:
    """Parse an answer. Raises ServerError."""
    try:
        return try_decode(msgspec.json.Decoder(kind).decode, answer)
    except UnreadableError as error:
        raise ServerError(f"{url} does not speak OpenAI's {api}: {error}", 502) from None
