"""Bodies of answers, as OpenAI's clients read them: whole, or as the events of a stream. Pure."""

import secrets
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from actors.gateway.chats import ChatReply, format_arguments
from actors.gateway.errors import AskError
from spade.codec import unpack_floats, unpack_ids
from spade.protocol import DIGEST_BYTES, Generated
from spade.tokens import Tokenizer
from spade.tokens.pieces import compute_offsets

Json = dict[str, Any]
_KINDS = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error"}


class AnswerHeader(NamedTuple):
    """The common fields in all parts of one answer."""

    id: str
    kind: str
    model: str
    created: int
    """Seconds since 1970."""

    @classmethod
    def new(cls, prefix: str, kind: str, model: str, created: float) -> "AnswerHeader":
        """Return the fields that all parts of a new answer share."""
        return cls(f"{prefix}-{secrets.token_hex(12)}", kind, model, int(created))

    def body(self, weights: str, **fields: Any) -> Json:
        """Return a body with the common fields and `fields`. `weights` becomes its `system_fingerprint`."""
        common = {"id": self.id, "object": self.kind, "created": self.created, "model": self.model}
        return {**common, "system_fingerprint": weights, **fields}


def format_weights(answers: Sequence[Generated]) -> str:
    """Return the version and digest of all weights that sampled a token, the oldest first, separated by commas.

    Example: "3-0a1b…,4-77f0…".
    """
    found = dict[int, str]()
    for answer in answers:
        for at, (version, _) in enumerate(answer.versions):
            found[version] = answer.digests[at * DIGEST_BYTES : (at + 1) * DIGEST_BYTES].hex()
    return ",".join(f"{version}-{digest}" for version, digest in sorted(found.items()))


def count_usage(prompt: int, answers: Sequence[Generated]) -> Json:
    """Return the numbers of tokens read and sampled."""
    sampled = sum(len(answer.ids) // 4 for answer in answers)
    return {"prompt_tokens": prompt, "completion_tokens": sampled, "total_tokens": prompt + sampled}


def make_chat_choice(index: int, reply: ChatReply, answer: Generated, logprobs: Json | None) -> Json:
    """Return a choice of a chat."""
    message: Json = {"role": "assistant", "content": reply.content, "refusal": None}
    if reply.thought is not None:
        message["reasoning_content"] = reply.thought
    if reply.calls:
        message["content"] = reply.content or None
        message["tool_calls"] = [
            {
                "id": f"call_{secrets.token_hex(12)}",
                "type": "function",
                "function": {"name": call.name, "arguments": format_arguments(call)},
            }
            for call in reply.calls
        ]
    finish = "tool_calls" if reply.calls and answer.finish == "stop" else answer.finish
    return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": finish}


def list_chat_logprobs(tokenizer: Tokenizer, answer: Generated, pieces: Sequence[bytes]) -> Json:
    """Return the log-probability of each sampled token, in nats.

    `pieces` holds the bytes that each token adds to the text. Control tokens, and tokens after a stop string, add none.
    """
    ids, logprobs = unpack_ids(answer.ids).tolist(), unpack_floats(answer.logprobs).tolist()
    content = [
        {"token": tokenizer.token_text(id), "logprob": logprob, "bytes": list(piece), "top_logprobs": []}
        for id, logprob, piece in zip(ids, logprobs, pieces, strict=True)
    ]
    return {"content": content, "refusal": None}


def list_completion_logprobs(tokenizer: Tokenizer, answer: Generated, pieces: Sequence[bytes]) -> Json:
    """Return the texts of a completion's tokens, their log-probabilities in nats, and their places in its text.

    A token's place is the number of characters before the character in which the token begins.
    """
    tokens = [tokenizer.token_text(id) for id in unpack_ids(answer.ids).tolist()]
    floats = unpack_floats(answer.logprobs).tolist()
    return {"tokens": tokens, "token_logprobs": floats, "top_logprobs": None, "text_offset": compute_offsets(pieces)}


def stream_chat(heading: AnswerHeader, weights: str, choices: Sequence[Json], used: Json | None) -> Iterator[Json]:
    """Yield the chunks of a chat. Each choice comes in one piece, because engines do not stream."""
    chunk = heading._replace(kind="chat.completion.chunk")
    none = {} if used is None else {"usage": None}
    for choice in choices:
        message = {key: value for key, value in choice["message"].items() if value is not None}
        if calls := message.get("tool_calls"):
            message["tool_calls"] = [{"index": at, **call} for at, call in enumerate(calls)]
        first = {**choice, "delta": message, "finish_reason": None}
        last = {"index": choice["index"], "delta": {}, "logprobs": None, "finish_reason": choice["finish_reason"]}
        del first["message"]
        yield chunk.body(weights, choices=[first], **none)
        yield chunk.body(weights, choices=[last], **none)
    if used is not None:
        yield chunk.body(weights, choices=[], usage=used)


def stream_completion(
    heading: AnswerHeader, weights: str, choices: Sequence[Json], used: Json | None
) -> Iterator[Json]:
    """Yield the chunks of completions, one for each choice."""
    none = {} if used is None else {"usage": None}
    for choice in choices:
        yield heading.body(weights, choices=[choice], **none)
    if used is not None:
        yield heading.body(weights, choices=[], usage=used)


def format_events(chunks: Iterator[Json]) -> bytes:
    """Return a complete stream of server-sent events."""
    return b"".join(b"data: " + msgspec.json.encode(chunk) + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


def make_error_body(error: AskError) -> Json:
    """Return an error as OpenAI's clients read it."""
    kind = _KINDS.get(error.status, "invalid_request_error" if error.status < 500 else "server_error")
    return {"error": {"message": str(error), "type": kind, "param": error.param, "code": error.code}}
