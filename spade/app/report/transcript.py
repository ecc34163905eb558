"""Build the transcript of a play from its tokens: the parts that the model read and wrote, in order."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from spade.codec import split_runs
from spade.protocol import Trajectory

LONGEST_PART = 3_000
LONGEST = 9_000
"""Most characters of a transcript. LONGEST_PART bounds one part. Longer texts are cut in the middle."""

Decode = Callable[[Sequence[int]], str]


class Part(NamedTuple):
    """A part of a transcript."""

    said: bool
    """True if the model wrote the text, False if it read it."""

    text: str
    """The text, possibly cut."""


def make_transcript(tokens: Trajectory, decode: Decode) -> list[Part]:
    """Return the parts in order. If the transcript is too long, a note replaces the parts in the middle."""
    # Bound each part, because a token of a hostile vocabulary may have very many characters.
    texts = ((said, decode(ids).strip("\n")) for said, ids in split_runs(tokens))
    return _drop_parts([Part(said, cut_text(text, LONGEST_PART)) for said, text in texts if text])


def cut_text(text: str, most: int) -> str:
    """Return `text`, or its two ends with a line between them that counts the characters left out."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters are left out …]\n{text[-half:]}"


def _drop_parts(parts: list[Part]) -> list[Part]:
    """Keep the first part, and as many of the last parts as fit."""
    if sum(len(part.text) for part in parts) <= LONGEST:
        return parts
    room, kept = LONGEST - len(parts[0].text), list[Part]()
    for part in reversed(parts[1:]):
        room -= len(part.text)
        if room < 0:
            break
        kept.insert(0, part)
    left_out = len(parts) - 1 - len(kept)
    return [parts[0], Part(False, f"[… {left_out} parts are left out …]"), *kept]
