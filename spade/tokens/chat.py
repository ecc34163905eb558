"""Chats of clients in the form that a chat template gets: their structure, with a stand-in for each string.

A client's chat may have parts that a play's chat lacks: calls that an assistant made, thoughts, names. As with tools,
no string of the chat enters the template. So no string can forge the template's text or steer its code.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spade.tokens.stand_ins import make_stand_in
from spade.tokens.tools import FIRST, put_strings

MOST_MESSAGES = 4096


@dataclass(frozen=True)
class Chat:
    """A conversation that a template should show."""

    skeleton: str
    """JSON of the chat's messages, tools and variables, with stand-ins for the strings."""

    contents: tuple[str, ...]
    """Contents of the chat's messages."""

    strings: tuple[str, ...]
    """All other strings, of calls and of tools. The stand-in of the first one has the number FIRST."""

    @classmethod
    def of(
        cls,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Any] = (),
        variables: Mapping[str, bool] | None = None,
    ) -> "Chat":
        """Convert at most MOST_MESSAGES messages into a Chat.

        Each message needs `role` and `content`, and may have other fields. `variables` are variables of the template,
        such as enable_thinking. Raises ValueError for half of a surrogate pair.
        """
        assert len(messages) <= MOST_MESSAGES < FIRST
        strings: dict[str, int] = {}
        shown = []
        for number, message in enumerate(messages):
            message["content"].encode()
            others = {key: value for key, value in message.items() if key not in ("role", "content")}
            # A template asks whether a message has content, so an empty content gets no stand-in.
            content = make_stand_in(number) if message["content"] else ""
            shown.append({"role": message["role"], "content": content, **put_fields(strings, others)})
        structure = {
            "messages": shown,
            "tools": put_strings(strings, list(tools)) if tools else None,
            "variables": dict(variables or {}),
        }
        contents = tuple(message["content"] for message in messages)
        return cls(json.dumps(structure, ensure_ascii=False), contents, tuple(strings))


def put_fields(strings: dict[str, int], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the strings of a message's fields by stand-ins.

    The message's own keys and the keys of a call stay.
    """
    return {
        key: [
            {"type": "function", **{name: _call(strings, value) for name, value in call.items() if name != "type"}}
            for call in value
        ]
        if key == "tool_calls"
        else put_strings(strings, value)
        for key, value in fields.items()
    }


def _call(strings: dict[str, int], value: Any) -> Any:
    """Replace the strings of a call's function, or of its id, by stand-ins."""
    if not isinstance(value, dict):
        return put_strings(strings, value)
    return {key: put_strings(strings, part) for key, part in value.items()}
