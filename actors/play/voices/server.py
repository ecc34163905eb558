"""A server with OpenAI's chat API. After a failure that may be temporary, a request is tried again."""

from collections.abc import Mapping
from typing import Any

import msgspec
import trio

from spade.errors import ConfigError
from spade.openai_api import OpenAIClient, ServerError

TRIES = 4
"""Tries of one request."""
_WAITS_S = (1.0, 4.0, 15.0)  # before another try


class ChatServer(OpenAIClient):
    """A server of chats. An async context manager."""

    most_bytes = 16 << 20
    most_idle = None

    async def __aenter__(self) -> "ChatServer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def chat(self, body: Mapping[str, Any]) -> bytes:
        """Return the body of the answer to a chat. Raises ServerError if TRIES tries fail."""
        content = msgspec.json.encode(body)
        for wait_s in _WAITS_S:
            try:
                return await self.ask("POST", "/chat/completions", content)
            except ServerError as error:
                if not error.passing:
                    raise
            await trio.sleep(wait_s)
        return await self.ask("POST", "/chat/completions", content)

    async def model(self, name: str) -> str:
        """Return the model called `name`, or the only model if `name` is "".

        Raises ConfigError if the server lacks it.
        """
        try:
            return await self.find_model(name)
        except ServerError as error:
            if name and error.status in (404, 405):
                return name  # some servers do not list their models
            raise ConfigError(str(error)) from None
