"""The likeness of a program to earlier ones, by the runs of tokens that both have. Pure, and linear in the sources."""

import re
from collections.abc import Iterable

from spade.protocol import EarlierProgram

LENGTH = 5  # tokens of a shingle
_TOKEN = re.compile(r"\w+|[^\w\s]")


def shingles(source: str) -> frozenset[tuple[str, ...]]:
    """All runs of five tokens; of a shorter source the one that it is.

    A token is a word, a number or one sign, in code, comments and texts alike: space and line breaks make no program
    another one, and a source that is no Python has tokens, too.
    """
    tokens = _TOKEN.findall(source)
    return frozenset(tuple(tokens[start : start + LENGTH]) for start in range(max(1, len(tokens) - LENGTH + 1)))


def most_similar(source: str, earlier: Iterable[EarlierProgram]) -> tuple[float, str] | None:
    """The greatest similarity of `source` to an earlier program, over 0 to 1, and its id; None where there is none.

    Of equals the first. The similarity is Jaccard's, shingles of both / shingles of either (Broder 1997).
    """
    own = shingles(source)
    nearest: tuple[float, str] | None = None
    for program in earlier:
        other = shingles(program.source)
        both = len(own & other)
        similarity = both / (len(own) + len(other) - both)
        if nearest is None or similarity > nearest[0]:
            nearest = similarity, program.environment
    return nearest
