"""Rules that read the answer in a completion: its last box, a letter, code. Each returns "" without an answer. Pure."""

from collections.abc import Callable, Mapping

from actors.sandbox.inside.libraries.letters import labelled, stated
from actors.text.actions import action_said, answer, boxed
from actors.text.fences import code_in

_LETTERS = "ABCD"


def letter(text: str) -> str:
    """Return the option A to D that a model chose. Returns "" if it chose no option or several.

    The last box counts. Without a box, the last sentence that names the answer counts.
    """
    said = answer(text)
    box = boxed(said)
    return labelled(box, _LETTERS) if box else stated(said, _LETTERS)


def code(text: str) -> str:
    """Return the last fenced block after the thinking."""
    return code_in(answer(text))


READERS: Mapping[str, Callable[[str], str]] = {
    "box": action_said,
    "mathematics": action_said,
    "choice": letter,
    "program": code,
}
"""The readers by the name in `Protocol.grading`. The item's program judges the text that they return.

A name stands for the reader and the judge. If either changes its judgement, the grading needs another name, so that
figures of different judges are never paired.
"""
