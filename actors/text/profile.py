"""Prompts for the model in either role. A profile turns jobs into messages and completions into programs."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from actors.text.fences import Written
from spade.protocol import MemorySeed


class ChatMessage(msgspec.Struct, frozen=True):
    """One message of a conversation; `role` is system, user, assistant or tool."""

    role: str
    content: str


class Document(msgspec.Struct, frozen=True):
    """One document of the corpus; `field` is what it is about (mathematics, science, everyday)."""

    id: str
    field: str
    title: str
    text: str


class Situation(msgspec.Struct, frozen=True):
    """An everyday service to be simulated, and the kind of task; "" where the prompts have none."""

    setting: str = ""
    variant: str = ""


NO_SITUATION = Situation()


class Profile(Protocol):
    """The prompts of both roles and how to read what the model answers."""

    def situation(self, settings: Sequence[str], draw: int) -> Situation:
        """The situation to ask for; `draw` is the job's, so that no easier one replaces it after a failed attempt."""
        ...

    def design(
        self,
        skill: str,
        document: Document | None,
        seeds: Sequence[MemorySeed],
        avoid: MemorySeed | None,
        draw: int = 0,
        situation: Situation = NO_SITUATION,
    ) -> list[ChatMessage]:
        """Ask for a program of `skill` that needs `document`; `seeds` are high-regret programs to vary.

        Without a document nothing grounds it. `draw` is the job's: it decides all further choices.
        """
        ...

    def program(self, completion: str) -> Written | None:
        """The program inside a completion, None if there is none."""
        ...

    def hint(self, source: str) -> list[ChatMessage]:
        """Ask for the privileged hint of a program."""
        ...

    def hint_text(self, completion: str) -> str:
        """The hint inside a completion ("" if there is none)."""
        ...

    def play(self, observation: str, hint: str | None, single_turn: bool = False) -> list[ChatMessage]:
        """Open an episode. The hint is the only difference between the arms.

        `single_turn`: each play of admission ended with its first action, as it does in a world of one question.
        """
        ...

    def reveals(self, name: str, observation: str) -> bool | None:
        """True if the first observation of the program of this class reveals the method; None if only a judge can tell.

        An observation reveals it if it states the rule or the strategy that wins.
        """
        ...

    def screen(self, source: str, replayed: str, suspects: Sequence[str]) -> list[ChatMessage] | None:
        """Ask if a player can know all that an admitted program wants; None if the profile has no such question.

        `replayed` is the transcript of the program's solution, `suspects` words of it that nothing seems to state.
        """
        ...
