"""Ask the model itself yes-or-no questions, and read its answers.

A review asks whether a program does what it tells the player. `Profile.screen` asks another question. The answers to
both questions have the same form.
"""

import re

from actors.text import rules
from actors.text.actions import answer, find_action
from actors.text.profile import ChatMessage
from actors.text.prompts import format_code
from spade.text import as_line

LONGEST_REASON = 1_000  # characters
_AROUND = re.compile(r"\\[a-z]+|[^\w\s]|\s")
"""LaTeX commands, punctuation and white space, ignored around a yes or no."""
_ANSWERS = {"yes": True, "no": False}


def review(source: str, observation: str) -> list[ChatMessage]:
    """Return the question whether a program is sound. The answer "no" means that the program is not sound."""
    shown = f"The first observation:\n\n<observation>\n{observation}\n</observation>"
    asked = f"{format_code(source)}\n\n{shown}\n\n{rules.REVIEW.strip()}"
    return [ChatMessage("system", rules.REVIEWER), ChatMessage("user", asked)]


def read_judgement(completion: str) -> bool | None:
    """Return True for yes, False for no, None if the answer cannot be read."""
    return _ANSWERS.get(_AROUND.sub("", find_action(completion).lower()))


def read_reasoning(completion: str) -> str:
    """Return the words before the box as one line, or "" without any."""
    words = answer(completion).rpartition("\\boxed")[0].split()
    return as_line(" ".join(words), LONGEST_REASON)
