"""The talk of a suite's play: the protocol's prompt and its reader of answers. Sends no system message."""

from collections.abc import Callable
from functools import partial

from actors.suites.answers import READERS
from actors.text.conversation import Move, Opening, Talk, format_examples
from actors.text.profile import ChatMessage
from spade.evaluations import Protocol
from spade.protocol import Observed
from spade.tokens import Tokenizer


class SuiteTalk:
    """See Talk. `protocol.grading` is a key of READERS."""

    marks = ()

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self._read = READERS[protocol.grading]

    def open(self, observed: Observed, hint: str | None) -> Opening:
        """See Talk. A suite has no hints."""
        return Opening(
            [*format_examples(self._protocol.examples), ChatMessage("user", self._protocol.ask(observed.observation))]
        )

    def act(self, text: str) -> Move:
        """See Talk."""
        return Move(self._read(text))

    def turn(self, observed: Observed, move: Move) -> list[ChatMessage]:
        """See Talk."""
        return [ChatMessage("user", observed.observation)]


def make_suite_talks(protocol: Protocol, _: Tokenizer) -> Callable[[], Talk]:
    """Return the talks of a suite that any checkpoint can play (`Talks` in `actors.suites.suite`)."""
    return partial(SuiteTalk, protocol)
