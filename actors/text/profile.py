"""Prompts for the model in either role. A profile turns jobs into messages and completions into programs."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from actors.text.fences import WrittenProgram
from spade.protocol import MemorySeed


class ChatMessage(msgspec.Struct, frozen=True):
    """One message of a conversation."""

    role: str
    """system, user, assistant or tool."""

    content: str
    """The text."""


class Document(msgspec.Struct, frozen=True):
    """One document of the corpus."""

    id: str
    """Unique in its corpus."""

    field: str
    """Its subject, such as mathematics, science, everyday or code."""

    title: str
    """A short name of the subject."""

    text: str
    """The text that grounds a design."""


class Situation(msgspec.Struct, frozen=True):
    """An everyday service to be simulated, and the kind of task. Both are "" if the prompts do not use them."""

    setting: str = ""
    """The service."""

    variant: str = ""
    """The kind of task, a variant of the domain."""


NO_SITUATION = Situation()


class Profile(Protocol):
    """The prompts of both roles, and the reading of the model's answers."""

    def situation(self, settings: Sequence[str], draw: int) -> Situation:
        """Choose the situation for a job.

        `draw` belongs to the job, so that a failed attempt does not lead to an easier situation.
        """
        return NO_SITUATION

    def design(
        self,
        skill: str,
        document: Document | None,
        seeds: Sequence[MemorySeed],
        avoid: MemorySeed | None,
        draw: int = 0,
        situation: Situation = NO_SITUATION,
    ) -> list[ChatMessage]:
        """Return the messages that ask for a program of `skill` that needs `document`.

        Without a document, the design is ungrounded. `seeds` are high-regret programs to vary. `draw` belongs to the
        job and decides all further choices.
        """
        ...

    def program(self, completion: str) -> WrittenProgram | None:
        """Return the program inside a completion, or None."""
        ...

    def hint(self, source: str) -> list[ChatMessage]:
        """Return the messages that ask for the hint of a program."""
        ...

    def hint_text(self, completion: str) -> str:
        """Return the hint inside a completion, or ""."""
        ...

    def play(self, observation: str, hint: str | None, single_turn: bool = False) -> list[ChatMessage]:
        """Return the first messages of an episode. Only the hint differs between the arms.

        `single_turn` is True if each play of admission ended with its first action, as in a world with one question.
        """
        ...

    def reveals(self, name: str, observation: str) -> bool | None:
        """Return True if the program's first observation reveals the method, or None if this is not known.

        An observation reveals the method if it states the rule or the strategy that wins.
        """
        return None

    def screen(self, source: str, replayed: str, suspects: Sequence[str]) -> list[ChatMessage] | None:
        """Return the question whether a player can learn everything that an admitted program demands.

        Returns None if the profile never asks this. `replayed` is the transcript of the program's solution. `suspects`
        are words of the transcript that neither the instructions nor the tools seem to state.
        """
        return None
