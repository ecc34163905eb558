"""Hermes: each call is a JSON object between two marks, as Qwen3 writes it.

    <tool_call>
    {"name": "find", "arguments": {"status": "new"}}
    </tool_call>

The object is decoded from its beginning, so marks and braces inside its strings are text.
"""

from actors.text.toolcalls.blocks import (
    BEGIN,
    END,
    Block,
    MalformedBlock,
    ParsedMessage,
    Schemas,
    call,
    decode,
    read_message,
    skip_block,
    skip_space,
)

MARKS = (BEGIN, END)


def read(text: str, schemas: Schemas) -> ParsedMessage:
    """See Dialect. JSON carries its own types, so the schemas are not used."""
    return read_message(text, _read_block)


def _read_block(text: str, begin: int) -> tuple[Block, int]:
    """Read the block after the opening mark, which ends at `begin`. Return the block and the place after it."""
    start = skip_space(text, begin)
    try:
        value, end = decode(text, start)
    except ValueError as error:
        return MalformedBlock(str(error)), skip_block(text, begin)
    closed = skip_space(text, end)
    if text.startswith(END, closed):
        return _call(value), closed + len(END)
    if closed == len(text):
        return _call(value), closed
    return MalformedBlock(f"the JSON ends at character {end - start}, but no {END} follows"), skip_block(text, closed)


def _call(value: object) -> Block:
    if not isinstance(value, dict):
        return MalformedBlock('a call must be an object: {"name": …, "arguments": {…}}')
    return call(value.get("name"), value.get("arguments"))
