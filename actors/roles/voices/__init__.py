"""The model's side of a play: by the tokens of our own engines, or by the messages of a server of others."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from actors.text.profile import ChatMessage
from spade.protocol import Trajectory
from spade.tokens import Tools


class TurnSaid(NamedTuple):
    """One answer of the model.

    prompt   what it was asked by: its tokens, little-endian int32; of a server the JSON of its messages
    read     tokens that it had not read before
    sampled  tokens of the answer
    finish   the reason why sampling ended
    """

    text: str
    prompt: bytes
    read: int
    sampled: int
    finish: str


class Voice(Protocol):
    """The model in one play."""

    @property
    def unfit(self) -> str:
        """The reason why a prompt has no room, for a person."""
        ...

    async def say(self, messages: Sequence[ChatMessage], tools: Tools, seed: int, near: str) -> TurnSaid | None:
        """The answer to these further messages; None where the context has no room for it. `near`: see Session.

        The first time may have tools. Raises BusError where nobody answers, UnreadableError where the tools are none.
        """
        ...

    def trajectory(self) -> Trajectory | None:
        """The tokens of the play, with their provenance; None where nobody tells them."""
        ...
