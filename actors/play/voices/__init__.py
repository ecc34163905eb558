"""Voices. A voice answers the messages of a play: by tokens of our own engines, or by messages of a foreign server."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from actors.text.profile import ChatMessage
from spade.protocol import Trajectory
from spade.tokens import Tools


class TurnSaid(NamedTuple):
    """One answer of the model."""

    text: str
    prompt: bytes
    """The prompt's tokens, little-endian int32. For a foreign server, its messages as JSON."""
    read: int
    """Prompt tokens that the model had not read before."""
    sampled: int
    """Tokens of the answer."""
    finish: str
    """The reason why sampling ended."""


class Voice(Protocol):
    """The model in one play."""

    @property
    def unfit(self) -> str:
        """Return the reason why a prompt does not fit, for a person."""
        ...

    async def say(self, messages: Sequence[ChatMessage], tools: Tools, seed: int, near: str) -> TurnSaid | None:
        """Return the model's answer after these further messages, or None if too little of the context is left.

        `near`: see `Session.generate`. The first call may bring tools. Raises BusError if no server answers,
        UnreadableError if the tools are malformed.
        """
        ...

    def trajectory(self) -> Trajectory | None:
        """Return the play's tokens with log-probabilities and policy versions, or None if the server hides them."""
        ...
