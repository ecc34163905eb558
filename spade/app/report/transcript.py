"""The transcript of a play from its tokens: what the model read and wrote, in turn."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from spade.codec import unpack_ids
from spade.protocol import Trajectory

LONGEST_PART = 3_000
LONGEST = 9_000
"""Characters of a part, and of a transcript: what is longer is cut in its middle."""

Decode = Callable[[Sequence[int]], str]


class Part(NamedTuple):
    """Text that the model wrote (`said`) or read, as far as it is shown."""

    said: bool
    text: str


def transcript(tokens: Trajectory, decode: Decode) -> list[Part]:
    """The parts in order. Where the whole is too long, the parts in the middle are left out with a word about it."""
    ids, parts, begin = unpack_ids(tokens.ids).tolist(), list[Part](), 0
    for place, span in enumerate(tokens.spans):
        # A token has a character or more as a rule; the bound keeps a hostile vocabulary from making more of it.
        text = decode(ids[begin : begin + span]).strip("\n")
        begin += span
        if text:
            parts.append(Part(place % 2 == 1, cut(text, LONGEST_PART)))
    return _bounded(parts)


def cut(text: str, most: int) -> str:
    """`text`, or its two ends with a line between them that says how much is left out."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters are left out …]\n{text[-half:]}"


def _bounded(parts: list[Part]) -> list[Part]:
    """The first part, and as many of the last ones as there is room for."""
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
