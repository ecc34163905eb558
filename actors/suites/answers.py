"""Find the answer in a completion: the last boxed text, a letter or code. Each function returns "" if there is none."""

from collections.abc import Callable, Mapping

from actors.sandbox.inside.libraries.letters import find_labelled, find_stated
from actors.text.actions import answer, find_action, find_boxed
from actors.text.fences import find_code

_LETTERS = "ABCD"


def find_letter(text: str) -> str:
    """Return the option A to D that a model chose. Returns "" if it chose no option or several.

    The last box counts. Without a box, the last sentence that names the answer counts.
    """
    reply = answer(text)
    box = find_boxed(reply)
    return find_labelled(box, _LETTERS) if box else find_stated(reply, _LETTERS)


def find_answer_code(text: str) -> str:
    """Return the last fenced block after the thinking."""
    return find_code(answer(text))


READERS: Mapping[str, Callable[[str], str]] = {
    "box": find_action,
    "mathematics": find_action,
    "choice": find_letter,
    "program": find_answer_code,
}
"""The readers by the name in `Protocol.grading`. The item's program judges the text that they return.

A name stands for the reader and the judge. If either changes its judgement, the grading needs another name, so that
figures of different judges are never compared.
"""
