"""Games: observations are messages of the user, an action is the last box of an answer."""

from collections.abc import Callable

from actors.text.actions import action_said, sent
from actors.text.conversation.talk import Move, Opening
from actors.text.profile import ChatMessage
from spade.protocol import Form, Observed


class GameTalk:
    """A play of a game. `opening`: a profile's `play`; `reads`: the form of an action that the program reads."""

    marks = ()

    def __init__(self, opening: Callable[[str, str | None], list[ChatMessage]], reads: Form = "inside") -> None:
        self._opening = opening
        self._reads = reads

    def open(self, observed: Observed, hint: str | None) -> Opening:
        """See Talk."""
        return Opening(self._opening(observed.observation, hint))

    def act(self, text: str) -> Move:
        """See Talk."""
        return Move(sent(action_said(text), self._reads))

    def turn(self, observed: Observed, move: Move) -> list[ChatMessage]:
        """See Talk; a game's turn is the same whatever the move."""
        return [ChatMessage("user", observed.observation)]
