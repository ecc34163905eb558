"""Questions of yes or no to the model itself, and its answer.

The judge asks if a first observation reveals the method, a review if a program does what it tells the player.

The screen of a profile has another question, answered in the same form.
"""

from actors.text import rules
from actors.text.actions import action_said, answer
from actors.text.profile import ChatMessage
from actors.text.prompts import code
from spade.text import line

LONGEST_REASON = 1_000  # characters
_ANSWERS = {"yes": True, "no": False}


def question(source: str, observation: str) -> list[ChatMessage]:
    """Ask if the first observation of a program reveals the method."""
    return _asked(rules.JUDGE, rules.QUESTION, source, observation)


def review(source: str, observation: str) -> list[ChatMessage]:
    """Ask if a program is sound; no: it is not."""
    return _asked(rules.REVIEWER, rules.REVIEW, source, observation)


def _asked(system: str, asked: str, source: str, observation: str) -> list[ChatMessage]:
    shown = f"The first observation:\n\n<observation>\n{observation}\n</observation>"
    return [ChatMessage("system", system), ChatMessage("user", f"{code(source)}\n\n{shown}\n\n{asked.strip()}")]


def judgement(completion: str) -> bool | None:
    """True for yes, False for no, None if the answer cannot be read."""
    return _ANSWERS.get(action_said(completion).lower())


def reasoning(completion: str) -> str:
    """The words before the box, as one line; "" if there are none."""
    words = answer(completion).rpartition("\\boxed")[0].split()
    return line(" ".join(words), LONGEST_REASON)
