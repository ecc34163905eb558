"""The chat format of a suite's play: the protocol's prompt and its reader of answers. Sends no system message."""

from collections.abc import Callable
from functools import partial

from actors.suites.answers import READERS
from actors.text.conversation import ChatFormat, Move, Opening, format_examples
from actors.text.profile import ChatMessage
from spade.evaluations import Protocol
from spade.protocol import Observed
from spade.tokens import Tokenizer


class SuiteChatFormat:
    """See ChatFormat. `protocol.grading` is a key of READERS."""

    marks = ()

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self._read = READERS[protocol.grading]

    def open(self, observed: Observed, hint: str | None) -> Opening:
        """See ChatFormat. A suite has no hints."""
        return Opening(
            [*format_examples(self._protocol.examples), ChatMessage("user", self._protocol.ask(observed.observation))]
        )

    def act(self, text: str) -> Move:
        """See ChatFormat."""
        return Move(self._read(text))

    def turn(self, observed: Observed, move: Move) -> list[ChatMessage]:
        """See ChatFormat."""
        return [ChatMessage("user", observed.observation)]


def make_suite_chat_formats(protocol: Protocol, _: Tokenizer) -> Callable[[], ChatFormat]:
    """Return the chat formats of a suite that any checkpoint can play (`ChatFormats` in `actors.suites.suite`)."""
    return partial(SuiteChatFormat, protocol)
