"""The completions call of OpenAI-compatible servers, as far as it is needed: token ids in, token ids out.

`return_token_ids` and `stop_token_ids` are vLLM's additions; a server that knows neither answers with text alone.
"""

import http.client
import socket
import ssl
from contextlib import suppress
from urllib.parse import urlsplit

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

    def __init__(self, url: str, status: int, body: bytes) -> None:
        super().__init__(f"{url} answers {status}: {' '.join(body[:300].decode(errors='replace').split())}")
        self.status = status


class Exchange:
    """One request and its answer, on a connection of its own: `run` blocks, `abandon` ends it from elsewhere."""

    def __init__(self, url: str, key: str, timeout_s: float) -> None:
        """`url`: the API's root, for example http://127.0.0.1:8000/v1. `key` "" sends none."""
        self._url = url.rstrip("/")
        parts = urlsplit(self._url)
        self._path = parts.path
        self._abandoned = False
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._connection = (
            http.client.HTTPSConnection(parts.netloc, timeout=timeout_s, context=ssl.create_default_context())
            if parts.scheme == "https"
            else http.client.HTTPConnection(parts.netloc, timeout=timeout_s)
        )

    def run(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """The answer's body. Raises StatusError, or BusError where there is none: no server, a slow one, half of it."""
        try:
            self._connection.connect()
            if self._abandoned:  # before there was a socket to shut
                raise BusError(f"{self._url}: its request was given up")
            self._connection.request(method, self._path + path, body, self._headers)
            with self._connection.getresponse() as response:
                answer = response.read(MOST_BYTES + 1)
                if len(answer) > MOST_BYTES:
                    raise BusError(f"{self._url} answers with more than {MOST_BYTES} bytes")
                if response.length:
                    raise http.client.IncompleteRead(answer, response.length)
        except TimeoutError:
            raise BusError(f"{self._url} gives no answer within {self._connection.timeout:g} s") from None
        except (OSError, http.client.HTTPException) as error:
            raise BusError(f"{self._url}: {error or type(error).__name__}") from None
        finally:
            self._connection.close()
        if response.status != http.HTTPStatus.OK:
            raise StatusError(self._url + path, response.status, answer)
        return answer

    def abandon(self) -> None:
        """End `run` with an error, if it has not ended."""
        self._abandoned = True
        sock = self._connection.sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
