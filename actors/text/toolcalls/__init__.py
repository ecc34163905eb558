"""Tool calls and the answer in what a model says. Pure; another family of models is one more dialect."""

from actors.text.toolcalls import hermes, xml
from actors.text.toolcalls.blocks import Block, Call, Malformed, Said, Schemas
from actors.text.toolcalls.dialect import Dialect
from actors.text.toolcalls.probe import find_dialect

DIALECTS = (
    Dialect("hermes", hermes.MARKS, hermes.read),
    Dialect("xml", xml.MARKS, xml.read),
)
"""In the order in which a checkpoint's template is tried."""

__all__ = ["DIALECTS", "Block", "Call", "Dialect", "Malformed", "Said", "Schemas", "find_dialect"]
