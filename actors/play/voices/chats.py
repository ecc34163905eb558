"""A voice that a foreign server answers. Only its messages are known, not its tokens."""

from collections.abc import Sequence
from typing import Any

import msgspec

from actors.play.voices import TurnSaid
from actors.play.voices.server import ChatServer
from actors.text.profile import ChatMessage
from spade.evaluations import Sampling
from spade.openai_api import ServerError, parse_answer
from spade.tokens import Tools


class AnswerMessage(msgspec.Struct):
    """An assistant's message. Its calls are as the server writes them."""

    content: str | None = None
    tool_calls: list[dict[str, Any]] | None = None


class AnswerChoice(msgspec.Struct):
    message: AnswerMessage
    finish_reason: str | None = None


class Usage(msgspec.Struct):
    """Tokens by the server's own count; 0 if it does not report them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class ChatAnswer(msgspec.Struct):
    """An answer of the chat route."""

    choices: list[AnswerChoice]
    usage: Usage | None = None


class ChatVoice:
    """A Voice that sends chat messages. The server renders the prompt, counts the tokens, and does not report them."""

    unfit = "a first prompt does not fit the context of the server's model"

    def __init__(self, server: ChatServer, model: str, sampling: Sampling) -> None:
        self._server = server
        self._fields = make_sampling_fields(model, sampling)
        self._messages: list[dict[str, str]] = []
        self._before = 0  # number of tokens of the last prompt and its answer

    def trajectory(self) -> None:
        """See Voice."""

    async def say(self, messages: Sequence[ChatMessage], tools: Tools, seed: int, near: str) -> TurnSaid | None:
        """See Voice."""
        assert not tools, "suites with tools are refused"
        self._messages += [{"role": message.role, "content": message.content} for message in messages]
        try:
            data = await self._server.chat({**self._fields, "messages": self._messages, "seed": seed})
        except ServerError as error:
            if error.overlong:
                return None
            raise
        answer = parse_answer(self._server.url, data, ChatAnswer)
        if not answer.choices:
            raise ServerError(f"{self._server.url} answers with no choice", 502)
        choice, used = answer.choices[0], answer.usage or Usage()
        prompt, text = msgspec.json.encode(self._messages), choice.message.content or ""
        self._messages.append({"role": "assistant", "content": text})
        read, self._before = used.prompt_tokens - self._before, used.prompt_tokens + used.completion_tokens
        return TurnSaid(text, prompt, max(read, 0), max(used.completion_tokens, 0), (choice.finish_reason or "")[:40])


def make_sampling_fields(model: str, sampling: Sampling) -> dict[str, Any]:
    """Return the sampling fields of a request. `top_k` is left out if sampling is from all tokens."""
    fields = {
        "model": model,
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
    }
    return fields | ({"top_k": sampling.top_k} if sampling.top_k else {})
