"""Read the bodies of requests. Fields that are neither used nor refused by name are ignored."""

from typing import Annotated, Any, TypeVar, cast

import msgspec
from msgspec import Meta

from actors.gateway.errors import make_bad_request_error
from actors.gateway.refusals import REFUSALS, check_supported
from spade.decoding import UnreadableError, try_decode
from spade.protocol import MOST_NAME
from spade.protocol.base import MOST_STOPS
from spade.text import as_line
from spade.tokens import MOST_MESSAGES

MOST_CHOICES = 64
MOST_TOOLS = 1024
MOST_PROMPTS = 1024  # most answers of one request: its prompts times n
_MOST = 2**31 - 1
_SHOWN = 60  # characters of a client's text in an answer
_SEEDS = 2**63

QUIET = frozenset(("metadata", "model", "prompt_cache_key", "safety_identifier", "service_tier", "store", "user"))
"""Fields that are ignored without a line in the log."""


class StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class TemplateOptions(msgspec.Struct, forbid_unknown_fields=True):
    enable_thinking: bool | None = None


class _Sampled(msgspec.Struct):
    """The fields that both routes have."""

    model: str | None = None
    temperature: Annotated[float, Meta(ge=0, le=_MOST)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=-1, le=_MOST)] | None = None
    seed: int | None = None
    stop: str | Annotated[list[str], Meta(max_length=MOST_STOPS)] | None = None
    n: Annotated[int, Meta(ge=1, le=MOST_CHOICES)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Meta(ge=1, le=_MOST)] | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        """Return the strings that end an answer."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def usage_streamed(self) -> bool:
        """Return True if a stream should end with the number of its tokens."""
        return bool(self.stream_options and self.stream_options.include_usage)


class Function(msgspec.Struct):
    name: Annotated[str, Meta(min_length=1, max_length=MOST_NAME)]
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ClientTool(msgspec.Struct):
    function: Function
    type: str = "function"


class CalledFunction(msgspec.Struct):
    name: str
    arguments: str | dict[str, Any] = ""


class MessageCall(msgspec.Struct):
    """A call that an assistant's message made."""

    function: CalledFunction
    id: str = ""


class ChatMessageIn(msgspec.Struct):
    """A message as a client sends it."""

    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: Annotated[list[MessageCall], Meta(max_length=MOST_TOOLS)] | None = None
    reasoning_content: str | None = None
    tool_call_id: str | None = None
    name: str | None = None


class ChatBody(_Sampled, kw_only=True):
    """A request of the chat route."""

    messages: Annotated[list[ChatMessageIn], Meta(min_length=1, max_length=MOST_MESSAGES)]
    tools: Annotated[list[ClientTool], Meta(max_length=MOST_TOOLS)] | None = None
    tool_choice: str | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1, le=_MOST)] | None = None
    logprobs: bool | None = None
    chat_template_kwargs: TemplateOptions | None = None


class CompletionBody(_Sampled, kw_only=True):
    """A request of the completion route."""

    prompt: str | list[int | str | list[int]]
    logprobs: Annotated[int, Meta(ge=0, le=1)] | None = None
    echo: bool | None = None
    return_token_ids: bool | None = None

    def prompts(self) -> list[str | list[int]]:
        """Return the prompts: texts, or lists of token ids. Raises AskError if the list mixes them."""
        given = self.prompt
        if isinstance(given, str):
            return [given]
        kinds = {type(each) for each in given}
        if len(kinds) != 1:
            raise make_bad_request_error(
                "prompt: must be a text, token ids, or a list of texts or of token ids, not empty", "prompt"
            )
        if kinds == {int}:
            return [cast("list[int]", given)]
        if len(given) * (self.n or 1) > MOST_PROMPTS:
            raise make_bad_request_error(
                f"prompt: a request may have at most {MOST_PROMPTS} answers (prompts × n)", "prompt"
            )
        return cast("list[str | list[int]]", given)


Body = TypeVar("Body", ChatBody, CompletionBody)


def read(data: bytes, kind: type[Body]) -> tuple[Body, list[str]]:
    """Read a body. Return the body and the names of ignored fields. Raises AskError, which names the field at fault."""
    try:
        fields = try_decode(msgspec.json.Decoder(dict[str, Any]).decode, data)
    except UnreadableError as error:
        raise make_bad_request_error(f"the body must be a JSON object: {error}") from None
    known = kind.__struct_fields__
    check_supported(fields)
    try:
        body = try_decode(lambda _: msgspec.convert(fields, kind), b"")
    except UnreadableError as error:
        what, _, place = str(error).partition(" - at `$.")
        place = place.removesuffix("`")
        raise make_bad_request_error(f"{place or 'the body'}: {what}", place.partition("[")[0]) from None
    _check_stops(body.stops)
    others = fields.keys() - REFUSALS.keys() - QUIET - set(known)
    return body, sorted(as_line(name, _SHOWN) for name in others)


def convert_seed(seed: int) -> int:
    """Map a client's seed into the range of seeds that a message of the bus can hold."""
    return seed % _SEEDS


def _check_stops(stops: tuple[str, ...]) -> None:
    if any(not 0 < len(stop) <= MOST_NAME for stop in stops):
        raise make_bad_request_error(f"stop: each string must have 1 to {MOST_NAME} characters", "stop")
