"""Chats of others as a chat template gets them: their structure, with a stand-in for each string.

A client's chat has what a play's has not: calls that an assistant made, thoughts, names. As with tools, none of its
strings enters the template, so that none can forge the template's text or steer its code.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spade.tokens.stand_ins import stand_in
from spade.tokens.tools import FIRST, put_strings

MOST_MESSAGES = 4096


@dataclass(frozen=True)
class Chat:
    """A conversation that a template is to show.

    skeleton  JSON of its messages, tools and variables, with stand-ins
    contents  of its messages
    strings   all others, of calls and of tools; the first has the number FIRST
    """

    skeleton: str
    contents: tuple[str, ...]
    strings: tuple[str, ...]

    @classmethod
    def of(
        cls,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Any] = (),
        variables: Mapping[str, bool] | None = None,
    ) -> "Chat":
        """A chat of at most MOST_MESSAGES messages, each with a role and a `content`; other fields are optional.

        `variables` are the template's own, such as enable_thinking. Raises ValueError for half of a surrogate pair.
        """
        assert len(messages) <= MOST_MESSAGES < FIRST
        strings: dict[str, int] = {}
        shown = []
        for number, message in enumerate(messages):
            message["content"].encode()
            others = {key: value for key, value in message.items() if key not in ("role", "content")}
            # A template asks whether there is a content, so an empty one has no stand-in.
            content = stand_in(number) if message["content"] else ""
            shown.append({"role": message["role"], "content": content, **put_fields(strings, others)})
        structure = {
            "messages": shown,
            "tools": put_strings(strings, list(tools)) if tools else None,
            "variables": dict(variables or {}),
        }
        contents = tuple(message["content"] for message in messages)
        return cls(json.dumps(structure, ensure_ascii=False), contents, tuple(strings))


def put_fields(strings: dict[str, int], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a message with stand-ins for their strings; their own keys, and those of a call, stay."""
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
    """The id of a call, or its function."""
    if not isinstance(value, dict):
        return put_strings(strings, value)
    return {key: put_strings(strings, part) for key, part in value.items()}
