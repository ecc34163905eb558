r"""Rules that read the answer in what a model says: its last box, a letter, code. "" where there is none. Pure."""

import re
from collections.abc import Callable, Mapping

from actors.text.actions import action_said, answer, boxed
from actors.text.fences import code_in

_COMMANDS = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mathit|boldsymbol|bf|rm)\b|[{}$*]|\\[()\[\] ,;!]")
_LABEL = re.compile(r"[\s(\[]*([A-Da-d])\s*(?:[).:,\]]|$)")
_NAMED = re.compile(r"\b(?:answer|option|choice)(?:\s+is)?\s*:?\s*[(\[]?([A-D])\b", re.IGNORECASE)
LONGEST_BOX = 10_000  # characters of a box that may hold a letter


def letter(text: str) -> str:
    r"""The option A to D that a model chose, read leniently.

    Its last box, of which `C`, `(c)`, `\text{C}`, `C. because` and `Option C` are read; without a box the last "answer
    is C". A box that holds anything else chooses nothing.
    """
    said = answer(text)
    box = boxed(said)
    if not box:
        named = _NAMED.findall(said.replace("*", ""))
        return named[-1].upper() if named else ""
    plain = _COMMANDS.sub("", box[:LONGEST_BOX])
    found = _LABEL.match(plain) or _NAMED.search(plain)
    return found[1].upper() if found else ""


def code(text: str) -> str:
    """The last fenced block behind the thinking."""
    return code_in(answer(text))


READERS: Mapping[str, Callable[[str], str]] = {"box": action_said, "letter": letter, "code": code}
"""By the name in `Protocol.grading`; the item's program judges what they read."""
