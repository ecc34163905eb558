"""The notation that a family of models uses for calls."""

from collections.abc import Callable
from typing import NamedTuple

from actors.text.toolcalls.blocks import ParsedMessage, Schemas


class Dialect(NamedTuple):
    """A notation of calls, shared by a family of models."""

    name: str
    """The name of the dialect."""

    marks: tuple[str, ...]
    """The texts around a call. They stay in a decoded message even if they are special tokens."""

    read: Callable[[str, Schemas], ParsedMessage]
    """Reads the blocks and the answer of a message. The caller has removed the model's thinking. Never raises."""
