"""Questions of yes or no to the model itself, and its answer: the judge asks if a first observation reveals the method.

The screen of a profile has another question, answered in the same form.
"""

import re

from actors.text import rules
from actors.text.actions import action_said, answer
from actors.text.profile import ChatMessage
from actors.text.prompts import code
from spade.text import line

LONGEST_REASON = 1_000  # characters
_AROUND = re.compile(r"\\[a-z]+|[^\w\s]|\s")
"""Commands of LaTeX, and marks."""
_ANSWERS = {"yes": True, "no": False}


def question(source: str, observation: str) -> list[ChatMessage]:
    """Ask about a program and its first observation."""
    shown = f"The first observation:\n\n<observation>\n{observation}\n</observation>"
    asked = f"{code(source)}\n\n{shown}\n\n{rules.QUESTION.strip()}"
    return [ChatMessage("system", rules.JUDGE), ChatMessage("user", asked)]


def judgement(completion: str) -> bool | None:
    """True for yes, False for no, None if the answer cannot be read."""
    return _ANSWERS.get(_AROUND.sub("", action_said(completion).lower()))


def reasoning(completion: str) -> str:
    """The words before the box, as one line; "" if there are none."""
    words = answer(completion).rpartition("\\boxed")[0].split()
    return line(" ".join(words), LONGEST_REASON)
