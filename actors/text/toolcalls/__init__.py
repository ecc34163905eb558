"""Read the tool calls and the answer in a message. Pure. Another family of models may need one more dialect."""

from actors.text.toolcalls import hermes, xml
from actors.text.toolcalls.blocks import Block, Call, MalformedBlock, ParsedMessage, Schemas
from actors.text.toolcalls.dialect import Dialect
from actors.text.toolcalls.probe import find_dialect

DIALECTS = (
    Dialect("hermes", hermes.MARKS, hermes.read),
    Dialect("xml", xml.MARKS, xml.read),
)
"""The known dialects. `find_dialect` tries them in this order against a checkpoint's chat template."""

__all__ = ["DIALECTS", "Block", "Call", "Dialect", "MalformedBlock", "ParsedMessage", "Schemas", "find_dialect"]
