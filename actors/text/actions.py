r"""Readers of the model's text: find the answer after its thinking, and the last complete `\boxed{…}` in it. Pure.

`format_action` decides which form of an action a program receives.
"""

import re

from spade.tokens.marks import THINK, THOUGHT

_MARKS = re.compile(r"\\boxed[ \t]*+\{|\\[{}]|[{}]")


def find_action(completion: str) -> str:
    r"""Return the action in a completion: the last complete `\boxed{…}` after the thinking, or "" without one."""
    return find_boxed(answer(completion))


def read_typed_action(text: str) -> str:
    r"""Return the action that a person typed: the content of the last complete `\boxed{…}`, or the whole text."""
    return find_boxed(text) or text.strip()


def strip_action(action: str) -> str:
    r"""Return the text that a program receives if a player gives this action: without its box, stripped.

    Returns "" if no box can hold the action, or if a mark in it (`</think>`) ends the thinking of a player there.
    """
    return find_action(action) or find_action(f"\\boxed{{{action}}}")


def can_say(text: str) -> bool:
    """Return True if a player's reply can hold a text. A text with a mark such as `</think>` counts as thinking."""
    return answer(text) == text


def answer(completion: str) -> str:
    """Return the text after the model's thinking, or "" if the completion was cut during the thinking."""
    visible = completion.rpartition(THOUGHT)[2]
    return "" if THINK in visible else visible


def find_boxed(text: str) -> str:
    r"""Return the content of the last complete `\boxed{…}`, stripped, or "" without one.

    Spaces may stand before the brace. Braces nest. An escaped brace (`\{`) is a plain character. A box inside a
    complete box belongs to the outer box. A box that never closes hides nothing: boxes before and inside it are found.
    Takes one pass, however many boxes the text has.
    """
    found = ""
    openings: list[int | None] = []  # for each open brace: the start of a box's content, or None for a plain brace
    for mark in _MARKS.finditer(text):
        match mark.group():
            case "{":
                openings.append(None)
            case "}" if openings:
                start = openings.pop()
                # Boxes close in the order of their ends, so an outer box comes after the boxes inside it.
                if start is not None:
                    found = text[start : mark.start()]
            case box if box.startswith("\\boxed"):
                openings.append(mark.end())
    return found.strip()


def format_action(action: str, reads: str) -> str:
    """Return an action in the form that a program reads: the content of the box, or the box itself.

    An action that already contains a box is sent unchanged. An empty action is sent empty, without a box.
    """
    if reads == "inside" or not action or find_boxed(action):
        return action
    return f"\\boxed{{{action}}}"
