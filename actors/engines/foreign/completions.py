"""A client of the completions call of OpenAI-compatible servers: token ids in, token ids out.

`return_token_ids` and `stop_token_ids` are additions of vLLM. A server that does not know them answers with text alone.
"""

import asyncio
import ssl
from contextlib import aclosing
from http import HTTPStatus

import httpx2
import msgspec

from spade.errors import BusError

MOST_BYTES = 64 << 20  # of an answer: about 200 for each token, its log-probability and its share of the prompt


class Logprobs(msgspec.Struct):
    """Log-probabilities of the sampled tokens."""

    token_logprobs: list[float | None] | None = None


class Choice(msgspec.Struct):
    """An answer. Fields that the server does not send are None."""

    text: str = ""
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    logprobs: Logprobs | None = None
    finish_reason: str | None = None


class Completion(msgspec.Struct):
    """The answer to a completions request."""

    choices: list[Choice]


class Model(msgspec.Struct):
    """A model that the server knows."""

    id: str


class Models(msgspec.Struct):
    """The answer to a request for models."""

    data: list[Model]


class StatusError(BusError):
    """The server answered with an HTTP error, `status`."""

    def __init__(self, url: str, status: int, body: bytearray) -> None:
        super().__init__(f"{url} answers {status}: {' '.join(body[:300].decode(errors='replace').split())}")
        self.status = status


class Api:
    """The API of a server. Each request opens a connection, which closes when the asking task ends."""

    def __init__(self, url: str, key: str, deadline_s: float) -> None:
        """Connect to the API's root `url`, for example http://127.0.0.1:8000/v1. An empty `key` sends no key."""
        self._url = url.rstrip("/")
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._deadline_s = deadline_s
        # Use the transport alone: a client would also follow cookies, redirects and the shell's proxies.
        self._transport = httpx2.AsyncHTTPTransport(
            verify=ssl.create_default_context(), limits=httpx2.Limits(max_keepalive_connections=0)
        )

    async def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """Send a request and return the body of the answer.

        Raises StatusError for an HTTP error, and BusError if no server answers, or only slowly or in part.
        """
        answer = bytearray()
        try:
            async with asyncio.timeout(self._deadline_s):
                request = httpx2.Request(method, self._url + path, headers=self._headers, content=body)
                async with aclosing(await self._transport.handle_async_request(request)) as response:
                    async for part in response.aiter_raw():
                        answer += part
                        if len(answer) > MOST_BYTES:
                            raise BusError(f"{self._url} answers with more than {MOST_BYTES} bytes")
        except TimeoutError:
            raise BusError(f"{self._url} gives no answer within {self._deadline_s:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise BusError(f"{self._url}: {str(error) or type(error).__name__}") from None
        if response.status_code != HTTPStatus.OK:
            raise StatusError(self._url + path, response.status_code, answer)
        return bytes(answer)
