"""Finds a checkpoint's dialect by a round trip: its chat template writes a call, and a dialect reads the call back."""

import json
from typing import Any

from actors.text.toolcalls.blocks import Call, Schemas
from actors.text.toolcalls.dialect import Dialect
from spade.errors import RunError
from spade.tokens import Tokenizer, Tools

_PROPERTIES: dict[str, dict[str, Any]] = {
    "plain": {"type": "string", "description": "A word of the probe.", "enum": ["first choice", "second choice"]},
    "count": {"type": "integer", "minimum": 1},
    "nested": {"type": "object", "properties": {"deep": {"type": "array", "items": {"type": "string"}}}},
}
_PARAMETERS = {"type": "object", "properties": _PROPERTIES, "required": ["plain", "count"]}
_FUNCTION = {"name": "probe_tool", "description": "A tool of the probe.", "parameters": _PARAMETERS}
_TOOLS: list[dict[str, Any]] = [{"type": "function", "function": _FUNCTION}]
_SCHEMAS: Schemas = {"probe_tool": _PROPERTIES}
_ARGUMENTS = {"plain": 'a "b" {c}', "count": 5, "nested": {"deep": ["d}", "é\n", ""], "more": {"e": None, "f": [True]}}}
_ASKED, _SEEN = "A question of the probe.", "A result of the probe."


def find_dialect(tokenizer: Tokenizer, dialects: tuple[Dialect, ...], model: str) -> Dialect:
    """Return the first dialect that reads the template's calls. Raises RunError that names the model."""
    tools = Tools.read(json.dumps(_TOOLS))
    try:
        dropped = tokenizer.dropped(("system", "user"), tools)
    except RunError as error:
        raise _make_unfit_error(model, f"shows no tools ({error})") from None
    if dropped:
        whole = len(dropped) == len(tools.strings)
        raise _make_unfit_error(
            model, "drops the tools" if whole else f"drops parts of a tool: {dropped[0]!r} of the probe"
        )
    try:
        tokenizer.turn_ids([], [_Result(_SEEN), _Result(_SEEN)])
    except RunError as error:
        raise _make_unfit_error(model, f"drops the results of calls ({error})") from None
    written = _render_call(tokenizer, model)
    for dialect in dialects:
        message = dialect.read(tokenizer.decode(tokenizer.encode(written), keep=dialect.marks), _SCHEMAS)
        read = [(block.name, json.loads(block.arguments)) for block in message.blocks if isinstance(block, Call)]
        if read == [("probe_tool", _ARGUMENTS)]:
            return dialect
    names = " or ".join(dialect.name for dialect in dialects)
    raise _make_unfit_error(model, f"writes calls in another way than {names}")


class _Result:
    """A result of the probe."""

    role = "tool"

    def __init__(self, content: str) -> None:
        self.content = content


def _render_call(tokenizer: Tokenizer, model: str) -> str:
    """Render an answer with a call by the chat template. Return its text."""
    called = {"id": "probe", "type": "function", "function": {"name": "probe_tool", "arguments": _ARGUMENTS}}
    chat: list[dict[str, Any]] = [
        {"role": "user", "content": _ASKED},
        {"role": "assistant", "content": "", "tool_calls": [called]},
        {"role": "tool", "content": _SEEN, "tool_call_id": "probe"},
    ]
    try:
        rendered = tokenizer.rendered(chat, _TOOLS)
    except RunError as error:
        raise _make_unfit_error(model, f"shows no calls ({error})") from None
    return rendered.partition(_ASKED)[2].partition(_SEEN)[0]


def _make_unfit_error(model: str, why: str) -> RunError:
    return RunError(
        f"the chat template of {model} {why}; use a model whose template shows tools and results "
        "and writes calls as Qwen3 (hermes), or as Qwen3-Coder, Qwen3.5 and Nemotron 3 (xml)"
    )
