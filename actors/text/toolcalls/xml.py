"""XML: each call has a mark for itself, its function and each of its arguments, as Qwen3.5 and Nemotron 3 write it.

    <tool_call>
    <function=find>
    <parameter=status>
    new
    </parameter>
    </function>
    </tool_call>

Strings stand as they are, all else as JSON: the tool's schema says which. Nothing is escaped, so an argument ends at
the first closing mark with another argument or the function's end behind it.
"""

import re
from typing import Any

from actors.text.toolcalls.blocks import (
    BEGIN,
    END,
    Block,
    Malformed,
    Said,
    Schemas,
    call,
    past_block,
    past_space,
    read_message,
    whole,
)
from actors.text.toolcalls.schema import choices, types

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


def read(text: str, schemas: Schemas) -> Said:
    """See Dialect."""
    return read_message(text, lambda text, begin: _Reader(text, begin).block(schemas))


class _Reader:
    """One block; `at` is as far as it has been read."""

    def __init__(self, text: str, begin: int) -> None:
        self._text = text
        self._begin = begin
        self._at = begin

    def block(self, schemas: Schemas) -> tuple[Block, int]:
        """The block, and the place behind it."""
        try:
            name, written = self._function()
        except ValueError as error:
            return Malformed(str(error)), past_block(self._text, self._at)
        declared = schemas.get(name, {})
        arguments = {key: _value(value, declared.get(key)) for key, value in written.items()}
        return call(name, arguments), self._at

    def _function(self) -> tuple[str, dict[str, str]]:
        """The name and the written arguments, of which the last of a name counts. Raises ValueError."""
        name, arguments = self._opened(_FUNCTION, "<function=NAME>"), dict[str, str]()
        while not self._passed(_FUNCTION_END):
            key = self._opened(_PARAMETER, f"<parameter=NAME> or {_FUNCTION_END}")
            arguments[key] = self._until_closed(key)
        if not self._passed(END) and self._at < len(self._text):
            raise ValueError(f"{END} is missing at {self._place}")
        return name, arguments

    def _opened(self, mark: re.Pattern[str], wanted: str) -> str:
        """The name in an opening mark."""
        self._at = past_space(self._text, self._at)
        found = mark.match(self._text, self._at)
        if found is None:
            raise ValueError(f"{wanted} is missing at {self._place}")
        self._at = found.end()
        return found[1].strip()

    def _until_closed(self, key: str) -> str:
        found = _PARAMETER_END.search(self._text, self._at)
        if found is None:
            place, self._at = self._place, len(self._text)
            raise ValueError(f"the parameter {key}, from {place} on, is never closed by </parameter>")
        value, self._at = self._text[self._at : found.start()], found.end()
        return value.removeprefix("\n").removesuffix("\n")

    def _passed(self, mark: str) -> bool:
        """True if `mark` comes next, behind white space; then it is read, and the space is read anyway."""
        self._at = past_space(self._text, self._at)
        found = self._text.startswith(mark, self._at)
        self._at += len(mark) * found
        return found

    @property
    def _place(self) -> str:
        return f"character {self._at - self._begin + 1}"


def _value(text: str, schema: Any) -> Any:
    """A written argument as its schema has it; the runtime refuses what fits none of its types."""
    allowed = [name for name in types(schema) if name in _TYPES]
    if (not allowed or "string" in allowed) and text in choices(schema):
        return text
    try:
        value = _WORDS[text] if text in _WORDS else whole(text)
    except ValueError:
        return text
    # Where a text is allowed, another value may stand instead, but no text in quotes.
    fits = not isinstance(value, str) and any(_fits(value, name) for name in allowed)
    return text if "string" in allowed and not fits else value


def _fits(value: object, name: str) -> bool:
    # To Python, True is an integer.
    return isinstance(value, _TYPES[name]) and isinstance(value, bool) == (name == "boolean")
