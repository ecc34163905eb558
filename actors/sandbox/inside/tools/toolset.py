"""Read the declarations of a program with tools: its methods, tools, instructions and criteria."""

import inspect
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from ..given import ToolUseBaseEnv
from ..messages import MOST_INSTRUCTIONS
from ..program import ProgramError, describe_type, escape_surrogates, is_a, name_of
from .annotations import Caller, derive, fit
from .schema import LISTED, Schema, SchemaError, check_parameters, cut_text, format_value
from .values import make_blamed_error

PREFIX = "tool_"
TOOLS = range(2, 17)
DESCRIPTION_CHARACTERS = 1_000
TOOLS_BYTES = 65_536
"""The largest size of all tools of a program together, as JSON."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
_KEYS = ("type", "name", "description", "parameters")

Criterion = Callable[[object], object]


class Tool:
    """A tool: its `name`, the `method` of the program, its description, and the schema of its arguments.

    `call` calls the method with arguments that fit the schema.
    """

    def __init__(self, name: str, method: str, description: str, parameters: Schema, call: Caller) -> None:
        self.name = name
        self.method = method
        self.description = description
        self.parameters = parameters
        self.call = call

    def offered(self) -> dict[str, object]:
        """Return the tool as OpenAI's function object."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


def find_tool_methods(kind: type) -> list[str]:
    """Return the methods that are tools, in the order of their definition.

    Raises ProgramError if `reset` or `solution` is missing, or if there are too few or too many tools.
    """
    missing = [name for name in ("reset", "solution") if not _is_own(kind, name)]
    if missing:
        raise ProgramError("protocol", "interface", f"{name_of(kind)} has no method {' and no '.join(missing)}")
    names = {name: None for base in reversed(kind.__mro__) for name in vars(base) if name.startswith(PREFIX)}
    methods = [name for name in names if callable(getattr(kind, name, None))]
    if len(methods) not in TOOLS:
        wanted = f"{TOOLS[0]} to {TOOLS[-1]} methods {PREFIX}<name>"
        raise ProgramError("protocol", "interface", f"{name_of(kind)} must have {wanted}, has {len(methods)}")
    return methods


def _is_own(kind: type, name: str) -> bool:
    return getattr(kind, name, None) is not getattr(ToolUseBaseEnv, name, None)


def make_toolset(instance: Any, methods: list[str]) -> dict[str, Tool]:
    """Return the tools by name, as `_tools` declares them, or else derived from the methods. Raises ProgramError."""
    tools: dict[str, Tool] = {}
    entries = _list_declared(instance._tools) if instance._tools else _list_undeclared(instance, methods)
    for name, method, description, parameters in entries:
        try:
            schema = _read_parameters(instance, methods, method, parameters)
            tool = Tool(name, method, description, schema, Caller(getattr(instance, method)))
            _check(tool)
        except SchemaError as error:
            raise _make_misdeclared_error(f"tool {format_value(name)}: {error}") from None
        if name in tools:
            raise _make_misdeclared_error(f"tool {name} is declared twice")
        tools[name] = tool
    forgotten = [method for method in methods if method not in {tool.method for tool in tools.values()}]
    if forgotten:
        raise _make_misdeclared_error(f"_tools lacks {forgotten[0]}")
    size = len(_encode_value("the tools are", [tool.offered() for tool in tools.values()]))
    if size > TOOLS_BYTES:
        raise _make_misdeclared_error(f"the tools take {size} bytes as JSON, more than {TOOLS_BYTES}")
    return tools


_Entry = tuple[str, str, Any, Any]
"""Name, method, description, and schema of the arguments. The schema is None if it must be derived."""


def _list_undeclared(instance: Any, methods: list[str]) -> Iterator[_Entry]:
    for method in methods:
        yield method.removeprefix(PREFIX), method, inspect.getdoc(getattr(instance, method)) or "", None


def _list_declared(tools: object) -> Iterator[_Entry]:
    """Yield the entries of `_tools`: a dict of tools by name, or a list in OpenAI's form."""
    whole = json.loads(_encode_value("_tools is", tools))
    if not isinstance(whole, dict | list):
        raise _make_misdeclared_error(f"_tools must be an object or a list, is {format_value(whole)}")
    for place, entry in whole.items() if isinstance(whole, dict) else enumerate(whole):
        path = f"_tools[{format_value(place)}]"
        entry = entry.get("function", entry) if isinstance(entry, dict) else entry
        if not isinstance(entry, dict):
            raise _make_misdeclared_error(f"{path} must be an object, is {format_value(entry)}")
        for key in entry:
            if key not in _KEYS:
                raise _make_misdeclared_error(f"{path}: the key {format_value(key)} is not supported")
        name = entry.get("name") if isinstance(place, int) else place
        if not isinstance(name, str):
            raise _make_misdeclared_error(f"{path}: the name must be a string, is {format_value(name)}")
        method = name if name.startswith(PREFIX) else PREFIX + name
        yield name, method, entry.get("description", ""), entry.get("parameters", {})


def _encode_value(what: str, value: object) -> bytes:
    """Encode a value as JSON. Raises ProgramError if JSON cannot express it, as for a lone surrogate or NaN."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise _make_misdeclared_error(f"{what} not JSON: there is a lone surrogate") from None
    except (TypeError, ValueError) as error:
        raise _make_misdeclared_error(f"{what} not JSON: {error}") from None


def _read_parameters(instance: Any, methods: list[str], method: str, parameters: Any) -> Schema:
    if method not in methods:
        raise SchemaError(f"there is no method {cut_text(method, LISTED)}")
    bound = getattr(instance, method)
    if parameters is None:
        return check_parameters(derive(bound))
    whole = check_parameters(parameters)
    fit(bound, whole)
    return whole


def _check(tool: Tool) -> None:
    if not _NAME.match(tool.name):
        raise SchemaError("the name must be an identifier of at most 64 ASCII letters, digits and _")
    if not isinstance(tool.description, str) or len(tool.description) > DESCRIPTION_CHARACTERS:
        raise SchemaError(f"the description must be a string of at most {DESCRIPTION_CHARACTERS} characters")


def _make_misdeclared_error(reason: str) -> ProgramError:
    return ProgramError("protocol", "schema", reason)


def read_agenda(instance: Any) -> tuple[list[str], list[Criterion]]:
    """Return the instructions and their criteria. Raises ProgramError if they are malformed."""
    instructions, criteria = instance._user_messages, instance._message_criteria
    for name, value in (("_user_messages", instructions), ("_message_criteria", criteria)):
        if not is_a(value, (list, tuple)):
            raise make_blamed_error(f"{name} must be a list, not {describe_type(value)}")
    instructions, criteria = list(instructions), list(criteria)
    if not 1 <= len(instructions) <= MOST_INSTRUCTIONS:
        raise make_blamed_error(f"needs 1 to {MOST_INSTRUCTIONS} instructions, has {len(instructions)}")
    if len(criteria) != len(instructions):
        raise make_blamed_error(f"needs a criterion for each instruction, has {len(criteria)} for {len(instructions)}")
    for place, (instruction, criterion) in enumerate(zip(instructions, criteria, strict=True)):
        if not is_a(instruction, str):
            raise make_blamed_error(f"_user_messages[{place}] must be a str, not {describe_type(instruction)}")
        if not str.strip(instruction):
            raise make_blamed_error(f"_user_messages[{place}] is empty")
        if not callable(criterion):
            raise make_blamed_error(f"_message_criteria[{place}] must be a function, not {describe_type(criterion)}")
    return [escape_surrogates(each) for each in instructions], criteria
