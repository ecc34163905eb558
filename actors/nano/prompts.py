"""The prompts of the nano model: a few words each, because it was trained on nothing else."""

from collections.abc import Sequence
from typing import Any, TypeVar

from actors.nano.families import Family
from actors.nano.themes import convert_to_camel, draw_theme
from actors.text.fences import WrittenProgram
from actors.text.profile import NO_SITUATION, ChatMessage, Document, Profile, Situation
from spade.protocol import MemorySeed

_F = TypeVar("_F", bound=Family[Any, Any])


class NanoProfile(Profile):
    """The prompts of both roles for the nano model.

    Prompts name a document by its field and title, and a program to avoid by its class name. Without a document, they
    use one of `fields` and a drawn name, because the model knows no other requests.
    """

    def __init__(self, families: Sequence[Family[Any, Any]], fields: Sequence[str]) -> None:
        self._families = families
        self._fields = fields

    def design(
        self,
        skill: str,
        document: Document | None,
        seeds: Sequence[MemorySeed],
        avoid: MemorySeed | None,
        draw: int = 0,
        situation: Situation = NO_SITUATION,
    ) -> list[ChatMessage]:
        theme = (
            draw_theme(draw, self._fields)
            if document is None
            else f"{document.field}/{convert_to_camel(document.title)}"
        )
        lines = [f"Design {skill} on {theme}."]
        if avoid is not None:
            lines.append(f"Avoid {find_class_name(avoid.source)}.")
        if seeds:
            lines.append(f"Vary:\n{seeds[0].source}")
        return [ChatMessage("user", "\n".join(lines))]

    def program(self, completion: str) -> WrittenProgram | None:
        return WrittenProgram(completion) if find_class_name(completion) else None

    def hint(self, source: str) -> list[ChatMessage]:
        return [ChatMessage("user", f"Hint for:\n{source}")]

    def hint_text(self, completion: str) -> str:
        return completion.strip()

    def play(self, observation: str, hint: str | None, single_turn: bool = False) -> list[ChatMessage]:
        return [ChatMessage("user", observation if hint is None else f"Hint: {hint}\n{observation}")]

    def reveals(self, name: str, observation: str) -> bool | None:
        family = match_family(self._families, name)
        return None if family is None else family.statement.search(observation) is not None


def find_class_name(source: str) -> str:
    """Return the name of the first class in a program, or "" without a class."""
    _, found, rest = source.partition("\nclass ")
    return rest.partition(":")[0].partition("(")[0].strip() if found else ""


def match_family(families: Sequence[_F], name: str) -> _F | None:
    """Return the family of a program, from the name of its class. None for a class of another kind."""
    return next((family for family in families if name.endswith(f"{family.name}Env")), None)
