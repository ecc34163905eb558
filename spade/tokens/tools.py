"""A program's tools in the form that a chat template gets: their structure, with a stand-in for each of their strings.

Only words of JSON Schema itself enter the template, such as `type` and `string`. Every other string, even a name or a
key, belongs to the program. It takes its place afterwards, like the content of a message.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spade.decoding import try_decode
from spade.tokens.stand_ins import make_stand_in

FIRST = 1 << 16
"""Number of the stand-in of the first string of tools. Lower numbers are for messages."""

WORDS = frozenset(
    (
        "type", "function", "name", "description", "parameters", "properties", "required", "enum", "items", "minimum",
        "maximum", "title", "default", "examples", "format",
        "string", "integer", "number", "boolean", "array", "object", "null",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Tools:
    """A list of OpenAI function objects."""

    skeleton: str = ""
    """JSON of the list, with a stand-in for each string."""

    strings: tuple[str, ...] = ()
    """The strings behind the stand-ins."""

    def __bool__(self) -> bool:
        return bool(self.skeleton)

    @classmethod
    def read(cls, text: str) -> "Tools":
        """Parse tools from a JSON text. "" means no tools. Raises UnreadableError."""
        return try_decode(_read, text.encode()) if text else cls()

    def structure(self) -> list[Any] | None:
        """Return the list with stand-ins, as a template takes it. Without tools, return None, as transformers does."""
        return list(json.loads(self.skeleton)) if self.skeleton else None


def _read(data: bytes) -> Tools:
    listed = json.loads(data)
    if not (isinstance(listed, list) and listed):
        raise ValueError("the tools must be a list of one or more")
    strings: dict[str, int] = {}
    skeleton = put_strings(strings, listed)
    return Tools(json.dumps(skeleton, ensure_ascii=False), tuple(strings))


def put_strings(strings: dict[str, int], value: Any) -> Any:
    """Replace each string of a JSON value by a stand-in. `strings` numbers them. Raises ValueError."""
    return _replace_texts(value, lambda text: _put(strings, text))


def _put(strings: dict[str, int], text: str) -> str:
    """Return the stand-in of a string.

    Equal strings share a stand-in, so that a template can ask whether a name is required.
    """
    if text in WORDS:
        return text
    text.encode()  # JSON can escape half of a surrogate pair, which is not text
    return make_stand_in(FIRST + strings.setdefault(text, len(strings)))


def _replace_texts(value: Any, put: Callable[[str], str]) -> Any:
    match value:
        case str():
            return put(value)
        case dict():
            return {put(key): _replace_texts(item, put) for key, item in value.items()}
        case list():
            return [_replace_texts(item, put) for item in value]
    return value


NO_TOOLS = Tools()
