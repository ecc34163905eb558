"""XML: tags enclose each call, its function and each of its arguments, as Qwen3.5 and Nemotron 3 write calls.

    <tool_call>
    <function=find>
    <parameter=status>
    new
    </parameter>
    </function>
    </tool_call>

Strings are written as they are, and other values as JSON. The tool's schema tells which of the two a text is. Nothing
is escaped. So an argument ends at the first closing tag that is followed by another argument or the function's end.
"""

import re
from typing import Any

from actors.text.toolcalls.blocks import (
    BEGIN,
    END,
    Block,
    MalformedBlock,
    ParsedMessage,
    Schemas,
    call,
    decode_whole,
    read_message,
    skip_block,
    skip_space,
)
from actors.text.toolcalls.schema import read_choices, read_types

MARKS = (BEGIN, END)
_FUNCTION = re.compile(r"<function=([^>\n]*+)>")
_PARAMETER = re.compile(r"<parameter=([^>\n]*+)>")
_FUNCTION_END = "</function>"
_PARAMETER_END = re.compile(r"</parameter>\s*+(?=<parameter=|</function>)")
_WORDS = {"True": True, "False": False, "None": None}  # templates write these as Python does
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict,
    "null": type(None),
}  # fmt: skip


def read(text: str, schemas: Schemas) -> ParsedMessage:
    """See Dialect."""
    return read_message(text, lambda text, begin: _Reader(text, begin).block(schemas))


class _Reader:
    """Reads one block. `_at` is the place up to which it has read."""

    def __init__(self, text: str, begin: int) -> None:
        self._text = text
        self._begin = begin
        self._at = begin

    def block(self, schemas: Schemas) -> tuple[Block, int]:
        """Read the block. Return it and the place after it."""
        try:
            name, written = self._read_function()
        except ValueError as error:
            return MalformedBlock(str(error)), skip_block(self._text, self._at)
        declared = schemas.get(name, {})
        arguments = {key: _convert_value(value, declared.get(key)) for key, value in written.items()}
        return call(name, arguments), self._at

    def _read_function(self) -> tuple[str, dict[str, str]]:
        """Read the name and the written arguments. If a name occurs twice, the last argument counts.

        Raises ValueError.
        """
        name, arguments = self._read_opened(_FUNCTION, "<function=NAME>"), dict[str, str]()
        while not self._read_mark(_FUNCTION_END):
            key = self._read_opened(_PARAMETER, f"<parameter=NAME> or {_FUNCTION_END}")
            arguments[key] = self._read_until_closed(key)
        if not self._read_mark(END) and self._at < len(self._text):
            raise ValueError(f"{END} is missing at {self._place}")
        return name, arguments

    def _read_opened(self, mark: re.Pattern[str], wanted: str) -> str:
        """Read an opening mark and return the name in it."""
        self._at = skip_space(self._text, self._at)
        found = mark.match(self._text, self._at)
        if found is None:
            raise ValueError(f"{wanted} is missing at {self._place}")
        self._at = found.end()
        return found[1].strip()

    def _read_until_closed(self, key: str) -> str:
        found = _PARAMETER_END.search(self._text, self._at)
        if found is None:
            place, self._at = self._place, len(self._text)
            raise ValueError(f"the parameter {key}, from {place} on, is never closed by </parameter>")
        value, self._at = self._text[self._at : found.start()], found.end()
        return value.removeprefix("\n").removesuffix("\n")

    def _read_mark(self, mark: str) -> bool:
        """Read `mark` if it comes next after white space. Return True if it did.

        The white space is read in any case.
        """
        self._at = skip_space(self._text, self._at)
        found = self._text.startswith(mark, self._at)
        self._at += len(mark) * found
        return found

    @property
    def _place(self) -> str:
        return f"character {self._at - self._begin + 1}"


def _convert_value(text: str, schema: Any) -> Any:
    """Convert a written argument to a type of its schema. The runtime refuses values that match none of its types."""
    allowed = [name for name in read_types(schema) if name in _TYPES]
    if (not allowed or "string" in allowed) and text in read_choices(schema):
        return text
    try:
        value = _WORDS[text] if text in _WORDS else decode_whole(text)
    except ValueError:
        return text
    # If a string is allowed, another type is read only if the schema allows it, and a quoted string stays a text.
    fits = not isinstance(value, str) and any(_is_fitting(value, name) for name in allowed)
    return text if "string" in allowed and not fits else value


def _is_fitting(value: object, name: str) -> bool:
    # To Python, True is an integer.
    return isinstance(value, _TYPES[name]) and isinstance(value, bool) == (name == "boolean")
