"""Yes-or-no questions to the model itself, and the reading of its answers.

The judge asks if a first observation reveals the method. A review asks if a program does what it tells the player.
The screen of a profile has another question, answered in the same form.
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


def ask_question(source: str, observation: str) -> list[ChatMessage]:
    """Ask if the first observation of a program reveals the method."""
    return _make_messages(rules.JUDGE, rules.QUESTION, source, observation)


def review(source: str, observation: str) -> list[ChatMessage]:
    """Ask if a program is sound. The answer "no" means that it is not."""
    return _make_messages(rules.REVIEWER, rules.REVIEW, source, observation)


def _make_messages(system: str, asked: str, source: str, observation: str) -> list[ChatMessage]:
    shown = f"The first observation:\n\n<observation>\n{observation}\n</observation>"
    return [ChatMessage("system", system), ChatMessage("user", f"{format_code(source)}\n\n{shown}\n\n{asked.strip()}")]


def read_judgement(completion: str) -> bool | None:
    """Return True for yes, False for no, None if the answer cannot be read."""
    return _ANSWERS.get(_AROUND.sub("", find_action(completion).lower()))


def read_reasoning(completion: str) -> str:
    """Return the words before the box as one line, or "" without any."""
    words = answer(completion).rpartition("\\boxed")[0].split()
    return as_line(" ".join(words), LONGEST_REASON)
