"""A way to write calls."""

from collections.abc import Callable
from typing import NamedTuple

from actors.text.toolcalls.blocks import Said, Schemas


class Dialect(NamedTuple):
    """The writing of calls by a family of models.

    marks  the texts around a call, which stay in a decoded message even where they are special tokens
    read   the blocks and the answer of a message without its thinking; never raises
    """

    name: str
    marks: tuple[str, ...]
    read: Callable[[str, Schemas], Said]
