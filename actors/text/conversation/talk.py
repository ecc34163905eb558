"""The one seam between an episode and its domain: what the model is told, and what it is taken to say."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from actors.text.profile import ChatMessage
from spade.protocol import Observed


@dataclass(frozen=True)
class Act:
    """One message of the model, read. `action` is what the program is sent; "" where the message has none."""

    action: str


class Opening(NamedTuple):
    """The messages before the model's first turn."""

    messages: list[ChatMessage]


class Talk(Protocol):
    """The words between one play and the model: those it is told, and what is read in its answers. Pure."""

    def open(self, observed: Observed, hint: str | None) -> Opening:
        """Begin with the answer to `reset`. The hint is the only difference between the arms."""
        ...

    def act(self, text: str) -> Act:
        """Read what the model says; any text is an act."""
        ...

    def turn(self, observed: Observed, act: Act) -> list[ChatMessage]:
        """Go on with the program's answer to the model's last act."""
        ...
