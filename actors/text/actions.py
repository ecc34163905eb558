r"""Readers of the model's text: its answer behind its thinking, and the last complete `\boxed{…}` in it. Pure.

And what of it a program is sent.
"""

import re

from spade.protocol import Form
from spade.tokens import THINK, THOUGHT

_MARKS = re.compile(r"\\boxed\{|\\[{}]|[{}]")


def action_said(completion: str) -> str:
    r"""The action in what a model says: the last complete `\boxed{…}` behind its thinking, "" if there is none."""
    return boxed(answer(completion))


def action_typed(text: str) -> str:
    r"""The action that a person types: the content of the last complete `\boxed{…}`, or all of it."""
    return boxed(text) or text.strip()


def answer(completion: str) -> str:
    """The text behind the model's thinking; "" if it was cut while it thought."""
    said = completion.rpartition(THOUGHT)[2]
    return "" if THINK in said else said


def boxed(text: str) -> str:
    r"""The content of the last complete `\boxed{…}`, stripped; "" if there is none.

    Braces nest; one behind a backslash is a character and counts for nothing. A box inside a complete
    box belongs to it. A box that never closes hides nothing: those before and inside it are found.
    One pass, however many boxes there are.
    """
    found = ""
    openings: list[int | None] = []  # of the braces open here: where a box's content begins, None for a plain brace
    for mark in _MARKS.finditer(text):
        match mark.group():
            case "{":
                openings.append(None)
            case "}" if openings:
                start = openings.pop()
                # Boxes close in the order of their ends, an outer one after those inside it.
                if start is not None:
                    found = text[start : mark.start()]
            case "\\boxed{":
                openings.append(mark.end())
    return found.strip()


def sent(action: str, reads: Form) -> str:
    r"""An action as it is sent to a program that reads the inside of the box, or the box.

    One that has a box already is sent as it is, and so is none at all: a model that boxed nothing sends no box.
    """
    if reads == "inside" or not action or boxed(action):
        return action
    return f"\\boxed{{{action}}}"
