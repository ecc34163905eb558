"""The judge's question: whether the first observation of a program reveals the method."""

from actors.text import rules
from actors.text.actions import action_said
from actors.text.profile import ChatMessage
from actors.text.prompts import code

_ANSWERS = {"yes": True, "no": False}


def question(source: str, observation: str) -> list[ChatMessage]:
    """Ask about a program and its first observation."""
    shown = f"The first observation:\n\n<observation>\n{observation}\n</observation>"
    asked = f"{code(source)}\n\n{shown}\n\n{rules.QUESTION.strip()}"
    return [ChatMessage("system", rules.JUDGE), ChatMessage("user", asked)]


def judgement(completion: str) -> bool | None:
    """True if the judge said that it reveals the method; None if the answer cannot be read."""
    return _ANSWERS.get(action_said(completion).lower())
