"""The tools of a program as a chat template gets them: their structure, with a stand-in for each string of theirs.

Only words of JSON Schema itself enter the template, such as `type` and `string`; every other string, also those of
names and keys, is the program's and takes its place afterwards, like the content of a message.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spade.decoding import decoded
from spade.tokens.stand_ins import stand_in

FIRST = 1 << 16
"""The number of the first string; those below are of messages."""

WORDS = frozenset(
    (
        "type", "function", "name", "description", "parameters", "properties", "required", "enum", "items", "minimum",
        "maximum", "title", "default", "examples", "format",
        "string", "integer", "number", "boolean", "array", "object", "null",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Tools:
    """A list of OpenAI's function objects. `skeleton`: its JSON with a stand-in for each string of `strings`."""

    skeleton: str = ""
    strings: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.skeleton)

    @classmethod
    def read(cls, text: str) -> "Tools":
        """The tools in a JSON text; "" is none. Raises UnreadableError."""
        return decoded(_read, text.encode()) if text else cls()

    def structure(self) -> list[Any] | None:
        """The list that the template gets; None without tools, as transformers has it."""
        return list(json.loads(self.skeleton)) if self.skeleton else None


def _read(data: bytes) -> Tools:
    listed = json.loads(data)
    if not (isinstance(listed, list) and listed):
        raise ValueError("the tools must be a list of one or more")
    strings: dict[str, int] = {}
    skeleton = put_strings(strings, listed)
    return Tools(json.dumps(skeleton, ensure_ascii=False), tuple(strings))


def put_strings(strings: dict[str, int], value: Any) -> Any:
    """A JSON value with the stand-in of each string of it, which `strings` numbers. Raises ValueError."""
    return _replaced(value, lambda text: _put(strings, text))


def _put(strings: dict[str, int], text: str) -> str:
    """The stand-in of a string. Equal ones share theirs, so that a template can ask whether a name is required."""
    if text in WORDS:
        return text
    text.encode()  # half of a surrogate pair, which JSON can escape, is no text
    return stand_in(FIRST + strings.setdefault(text, len(strings)))


def _replaced(value: Any, put: Callable[[str], str]) -> Any:
    match value:
        case str():
            return put(value)
        case dict():
            return {put(key): _replaced(item, put) for key, item in value.items()}
        case list():
            return [_replaced(item, put) for item in value]
    return value


NO_TOOLS = Tools()
