"""The completions call of OpenAI-compatible servers, as far as it is needed: token ids in, token ids out.

`return_token_ids` and `stop_token_ids` are vLLM's additions; a server that knows neither answers with text alone.
"""

import asyncio
import ssl
from contextlib import aclosing
from http import HTTPStatus

import httpx2
import msgspec

from spade.errors import BusError

MOST_BYTES = 64 << 20  # of an answer: some two hundred for each token, its log-probability and its prompt's


class Logprobs(msgspec.Struct):
    token_logprobs: list[float | None] | None = None


class Choice(msgspec.Struct):
    text: str = ""
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    logprobs: Logprobs | None = None
    finish_reason: str | None = None


class Completion(msgspec.Struct):
    choices: list[Choice]


class Model(msgspec.Struct):
    id: str


class Models(msgspec.Struct):
    data: list[Model]


class StatusError(BusError):
    """The server answered with an error; `status` is HTTP's."""

    def __init__(self, url: str, status: int, body: bytearray) -> None:
        super().__init__(f"{url} answers {status}: {' '.join(body[:300].decode(errors='replace').split())}")
        self.status = status


class Api:
    """The API of a server. Each request has a connection of its own, which ends with the task that asks."""

    def __init__(self, url: str, key: str, deadline_s: float) -> None:
        """`url`: the API's root, for example http://127.0.0.1:8000/v1. `key` "" sends none."""
        self._url = url.rstrip("/")
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._deadline_s = deadline_s
        # The transport alone: a client would also follow cookies, proxies of the shell, and places to be sent on to.
        self._transport = httpx2.AsyncHTTPTransport(
            verify=ssl.create_default_context(), limits=httpx2.Limits(max_keepalive_connections=0)
        )

    async def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """The answer's body. Raises StatusError, or BusError where there is none: no server, a slow one, half of it."""
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
