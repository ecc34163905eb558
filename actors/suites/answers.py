r"""Rules that read the answer in what a model says: its last box, a letter, code. "" where there is none. Pure."""

from collections.abc import Callable, Mapping

from actors.sandbox.inside.libraries.letters import labelled, stated
from actors.text.actions import action_said, answer, boxed
from actors.text.fences import code_in

_LETTERS = "ABCD"


def letter(text: str) -> str:
    """Return the option A to D that a model chose; "" if it chose none, or several.

    Its last box counts, and without a box the last sentence that names the answer.
    """
    said = answer(text)
    box = boxed(said)
    return labelled(box, _LETTERS) if box else stated(said, _LETTERS)


def code(text: str) -> str:
    """The last fenced block behind the thinking."""
    return code_in(answer(text))


READERS: Mapping[str, Callable[[str], str]] = {
    "box": action_said,
    "mathematics": action_said,
    "choice": letter,
    "program": code,
}
"""The readers by the name in `Protocol.grading`. The item's program judges what they read.

A name means the reader and the judge: if either judges otherwise, the grading needs another name, so that no figure is
paired with one of another judge.
"""
