"""Games: each observation is a user message, and the last box of an answer is the action."""

from collections.abc import Callable, Sequence

from actors.text.actions import find_action, format_action
from actors.text.conversation.chat_format import Move, Opening
from actors.text.profile import ChatMessage
from spade.protocol import Form, Observed


def format_examples(examples: Sequence[tuple[str, str]]) -> list[ChatMessage]:
    """Return pairs of an observation and an answer as messages of the user and of the model."""
    return [ChatMessage(*each) for one in examples for each in zip(("user", "assistant"), one, strict=True)]


class GameChatFormat:
    """The messages of a game.

    * opening: a profile's `play`
    * reads: the form of an action that the program reads
    * examples: pairs of an observation and an answer, shown before the first observation
    """

    marks = ()

    def __init__(
        self,
        opening: Callable[[str, str | None], list[ChatMessage]],
        reads: Form = "inside",
        examples: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._opening = opening
        self._reads = reads
        self._examples = format_examples(examples)

    def open(self, observed: Observed, hint: str | None) -> Opening:
        """See ChatFormat."""
        *rules, asked = self._opening(observed.observation, hint)
        return Opening([*rules, *self._examples, asked])

    def act(self, text: str) -> Move:
        """See ChatFormat."""
        return Move(format_action(find_action(text), self._reads))

    def turn(self, observed: Observed, move: Move) -> list[ChatMessage]:
        """See ChatFormat. A game's turn does not depend on the move."""
        return [ChatMessage("user", observed.observation)]
