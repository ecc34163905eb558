"""The one seam between an episode and its domain: what the model is told, and what it is taken to say."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from actors.text.profile import ChatMessage
from spade.protocol import Observed, ToolCall
from spade.tokens import NO_TOOLS, Tools


@dataclass(frozen=True)
class Move:
    """One message of the model, read. The program is sent `action` and `calls`, and hears of nothing else.

    action  in games the action; of a message that may call tools its answer; "" where the message has none
    calls   in their order
    blocks  places of the message that are calls, or should be; None stands for each of `calls`, a text is the error
            that the model is shown there
    """

    action: str
    calls: tuple[ToolCall, ...] = ()
    blocks: tuple[str | None, ...] = ()


class Opening(NamedTuple):
    """The messages before the model's first turn, and the tools that it may call."""

    messages: list[ChatMessage]
    tools: Tools = NO_TOOLS


class Talk(Protocol):
    """The words between one play and the model: those it is told, and what is read in its answers. Pure."""

    @property
    def marks(self) -> Collection[str]:
        """The special tokens that stay in the text that `act` reads."""
        ...

    def open(self, observed: Observed, hint: str | None) -> Opening:
        """Begin with the answer to `reset`. The hint is the only difference between the arms.

        Raises UnreadableError where the program offers what is no tools.
        """
        ...

    def act(self, text: str) -> Move:
        """Read what the model says; any text is a move."""
        ...

    def turn(self, observed: Observed, move: Move) -> list[ChatMessage]:
        """Go on with the program's answer to the model's last move."""
        ...
