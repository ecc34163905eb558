"""Convert a client's messages for the checkpoint's chat template, and a model's answer into a message. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from actors.gateway.bodies import ChatBody, ChatMessageIn, ClientTool, MessageCall
from actors.gateway.errors import make_bad_request_error
from actors.text.toolcalls import Call, Dialect, Schemas
from actors.text.toolcalls.schema import read_properties
from spade.decoding import UnreadableError, try_decode
from spade.text import as_line
from spade.tokens import THINK, THOUGHT, Chat

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_SHOWN = 60


class ChatReply(NamedTuple):
    """An answer as a message."""

    content: str
    """The answer's text, without thought and calls."""
    calls: tuple[Call, ...]
    """The answer's calls of tools."""
    thought: str | None
    """The thought before the text, or None without a thought."""


def convert_chat(body: ChatBody, offered: Sequence[ClientTool]) -> Chat:
    """Convert a request into a chat with the tools that it may call. Raises AskError."""
    messages = [_convert_message(number, message) for number, message in enumerate(body.messages)]
    options = body.chat_template_kwargs
    thinking = None if options is None else options.enable_thinking
    variables: dict[str, bool] = {} if thinking is None else {"enable_thinking": thinking}
    try:
        return try_decode(lambda _: Chat.of(messages, [_convert_tool(tool) for tool in offered], variables), b"")
    except UnreadableError as error:
        raise make_bad_request_error(f"messages, tools: {error}", "messages") from None


def collect_schemas(offered: Sequence[ClientTool]) -> Schemas:
    """Return the schemas of the arguments of each tool."""
    return {tool.function.name: read_properties(tool.function.parameters) for tool in offered}


def parse_answer(text: str, opened: bool, dialect: Dialect | None, known: Schemas) -> ChatReply:
    """Split a model's answer into thought, text and calls. Calls that cannot be parsed stay in the text.

    If `dialect` is None, no calls are parsed. `opened`: True if the prompt already contains the mark that begins the
    thought.
    """
    thought, content = _split_thought(text, opened)
    if dialect is None:
        return ChatReply(content, (), thought)
    read = dialect.read(content, known)
    calls, kept, end = list[Call](), list[str](), len(content)
    for block, (begin, behind) in zip(read.blocks, read.places, strict=True):
        if isinstance(block, Call):
            calls.append(block)
            end = min(end, begin)
        elif begin > end:
            kept.append(content[begin:behind])
    if not calls:
        return ChatReply(content, (), thought)
    return ChatReply("\n".join([content[:end].rstrip(), *kept]).lstrip("\n"), tuple(calls), thought)


def cut_at_stops(text: str, stops: Sequence[str], *, keep: bool = False) -> str:
    """Return the text before the first of these stop strings, or with `keep`, the text up to its end."""
    found = [(place, len(stop)) for stop in stops if (place := text.find(stop)) >= 0]
    if not found:
        return text
    place, length = min(found)
    return text[: place + length] if keep else text[:place]


def _split_thought(text: str, opened: bool) -> tuple[str | None, str]:
    """Split an answer into the thought and the rest. An answer that ends within its thought is all thought."""
    before, begun, after = text.partition(THINK)
    if not begun and not opened:
        return None, text
    if begun and not opened and before.strip():
        return None, text  # the answer only mentions thought marks
    inner = after if begun else text
    thought, ended, rest = inner.partition(THOUGHT)
    return thought.strip("\n"), rest.lstrip("\n") if ended else ""


def _convert_message(number: int, message: ChatMessageIn) -> dict[str, Any]:
    place = f"messages[{number}]"
    if message.role not in _ROLES:
        raise make_bad_request_error(
            f"{place}.role: {as_line(message.role, _SHOWN)!r} is none of {', '.join(_ROLES)}", "messages"
        )
    role = _ROLES[message.role]
    if message.content is None and not (role == "assistant" and message.tool_calls):
        raise make_bad_request_error(f"{place}.content: is missing", "messages")
    shown: dict[str, Any] = {"role": role, "content": _read_text(place, message.content)}
    if message.tool_calls:
        if role != "assistant":
            raise make_bad_request_error(f"{place}.tool_calls: only an assistant may call", "messages")
        shown["tool_calls"] = [_convert_call(place, call) for call in message.tool_calls]
    if role == "assistant" and message.reasoning_content is not None:
        shown["reasoning_content"] = message.reasoning_content
    if role == "tool" and message.tool_call_id is not None:
        shown["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        shown["name"] = message.name
    return shown


def _read_text(place: str, content: str | list[dict[str, Any]] | None) -> str:
    if not isinstance(content, list):
        return content or ""
    texts = list[str]()
    for part in content:
        kind, text = part.get("type"), part.get("text")
        if kind != "text" or not isinstance(text, str):
            wrong = "has no text" if kind == "text" else "is not supported"
            raise make_bad_request_error(
                f"{place}.content: a part of type {as_line(str(kind), _SHOWN)!r} {wrong}", "messages"
            )
        texts.append(text)
    return "".join(texts)


def _convert_call(place: str, call: MessageCall) -> dict[str, Any]:
    """Return a call in the form that chat templates read, with its arguments as an object. Raises AskError."""
    arguments = call.function.arguments
    if isinstance(arguments, str):
        try:
            arguments = try_decode(msgspec.json.Decoder(dict[str, Any]).decode, (arguments or "{}").encode())
        except UnreadableError as error:
            place = f"{place}.tool_calls"
            raise make_bad_request_error(
                f"{place}: arguments must be the JSON text of an object: {error}", "messages"
            ) from None
    return {"id": call.id, "function": {"name": call.function.name, "arguments": arguments}}


def _convert_tool(tool: ClientTool) -> Mapping[str, Any]:
    """Return a tool in the form that chat templates read."""
    function = {"name": tool.function.name, "description": tool.function.description or ""}
    if tool.function.parameters is not None:
        function |= {"parameters": tool.function.parameters}  # type: ignore[dict-item]
    return {"type": "function", "function": function}


def format_arguments(call: Call) -> str:
    """Return the arguments of a call as a client gets them: JSON with unescaped letters of any language."""
    return json.dumps(json.loads(call.arguments), ensure_ascii=False)
