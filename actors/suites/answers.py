"""Find the answer in a completion: the last boxed text, a letter or code. Each function returns "" if there is none."""

from collections.abc import Callable, Mapping

from actors.sandbox.inside.libraries import letters
from actors.text.actions import answer, find_action, find_boxed
from actors.text.fences import find_code

_LETTERS = "ABCD"


def find_letter(text: str) -> str:
    """Return the option A to D in the last box. Returns "" without a box, and if the box chooses none or several."""
    return letters.find_letter(find_boxed(answer(text)), _LETTERS)


def find_answer_code(text: str) -> str:
    """Return the last fenced block after the thinking."""
    return find_code(answer(text))


READERS: Mapping[str, Callable[[str], str]] = {
    "box": find_action,
    "mathematics": find_action,
    "boxed-letter": find_letter,
    "program": find_answer_code,
}
"""The readers by the name in `Protocol.grading`. The item's program judges the text that they return.

A name stands for the reader and the judge. If either changes its judgement, the grading needs another name, so that
figures of different judges are never compared.
"""
