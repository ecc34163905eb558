"""The similarity of a program to earlier ones, by shared runs of tokens. Pure, and linear in the sources."""

import re
from collections.abc import Iterable

from spade.protocol import EarlierProgram

LENGTH = 5  # tokens of a shingle
_TOKEN = re.compile(r"\w+|[^\w\s]")


def make_shingles(source: str) -> frozenset[tuple[str, ...]]:
    """Return all runs of five tokens. A shorter source is one run.

    A token is a word, a number or one sign, in code, comments and strings alike. So white space and line breaks do not
    make programs differ. A source that is not valid Python also has tokens.
    """
    tokens = _TOKEN.findall(source)
    return frozenset(tuple(tokens[start : start + LENGTH]) for start in range(max(1, len(tokens) - LENGTH + 1)))


def find_most_similar(source: str, earlier: Iterable[EarlierProgram]) -> tuple[float, str] | None:
    """Return the greatest similarity of `source` to an earlier program, in [0, 1], and this program's id, or None.

    Among equals, returns the first. The similarity is Jaccard's: shingles in both / shingles in either (Broder 1997).
    """
    own = make_shingles(source)
    nearest: tuple[float, str] | None = None
    for program in earlier:
        other = make_shingles(program.source)
        both = len(own & other)
        similarity = both / (len(own) + len(other) - both)
        if nearest is None or similarity > nearest[0]:
            nearest = similarity, program.environment
    return nearest
