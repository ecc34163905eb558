"""The only interface between an episode and its domain: which messages the model gets, and how its answers are read."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from actors.text.profile import ChatMessage
from spade.protocol import Observed, ToolCall
from spade.tokens import NO_TOOLS, Tools


@dataclass(frozen=True)
class Move:
    """The parts of one message of the model. The program receives only `action` and `calls`."""

    action: str
    """In games the action. In tool use the answer. "" if the message contains neither."""

    calls: tuple[ToolCall, ...] = ()
    """The readable calls, in order."""

    blocks: tuple[str | None, ...] = ()
    """One entry for each call in the message, in order. None for a readable call, which is in `calls`. For any other
    call, the error text that the model is shown."""


class Opening(NamedTuple):
    """The messages before the model's first turn, and the tools that it may call."""

    messages: list[ChatMessage]
    """The messages, the last one from the user."""

    tools: Tools = NO_TOOLS
    """The tools. NO_TOOLS in games."""


class ChatFormat(Protocol):
    """Writes the messages to the model and reads its answers, for one play. Pure."""

    @property
    def marks(self) -> Collection[str]:
        """Return the special tokens that stay in the text that `act` reads."""
        ...

    def open(self, observed: Observed, hint: str | None) -> Opening:
        """Return the first messages of a play. `observed` answers `reset`. Only the hint differs between the arms.

        Raises UnreadableError if the program's list of tools is unusable.
        """
        ...

    def act(self, text: str) -> Move:
        """Read a message of the model. No text is refused."""
        ...

    def turn(self, observed: Observed, move: Move) -> list[ChatMessage]:
        """Return the next messages: the program's answer `observed` to the model's last `move`."""
        ...
