"""Measures of programs: of one, by env-runners and designers; of the newest together, by the evaluator.

The evaluator and the replay service exchange the requests.
"""

from typing import Annotated

from msgspec import Meta

from spade.protocol.base import Count, Request, Wire
from spade.protocol.session import Done

MOST_PROGRAMS = 512  # whose diversity is measured at once; the similarities of all pairs are held


class Measures(Wire, frozen=True):
    """Measures of one program; definitions as in `docs/metrics.md`. None: not measured, or not to be told.

    `reveals` is True if its first observation reveals the method. Of a program with tools: how many `tools`, the mean
    `conditions` of a criterion, and whether one of its tools has a `guarded` failure. `similarity` is the greatest one
    to a program among the newest of the memory, or to a seed.
    """

    lines: Count | None = None
    hidden_variables: Count | None = None
    reveals: bool | None = None
    tools: Count | None = None
    conditions: Annotated[float, Meta(ge=0, le=1e6)] | None = None
    guarded: bool | None = None
    similarity: Annotated[float, Meta(ge=0, le=1)] | None = None


class NewestPrograms(Wire, frozen=True):
    """The sources of programs, the oldest first."""

    sources: tuple[str, ...] = ()


class GetNewestPrograms(Request[NewestPrograms], frozen=True):
    """Ask the replay service for the `count` newest admitted programs; fewer if they would not fit into a message."""

    count: Annotated[int, Meta(ge=1, le=MOST_PROGRAMS)]


class Diversity(Wire, frozen=True):
    """The diversity of the newest programs, when learner step `step` was the newest published.

    share      Vendi score / number of programs, over 0 to 1
    programs   that were compared
    embedding  the similarity: "tfidf", or the embedding model as it was configured
    seconds    duration
    """

    step: Count
    share: Annotated[float, Meta(gt=0, le=1)]
    programs: Annotated[int, Meta(ge=2, le=MOST_PROGRAMS)]
    embedding: str
    seconds: float


class MeasuredDiversity(Request[Done], frozen=True):
    """A diversity was measured. A repeated newest one is not taken again. Refused: its figures make no sense."""

    diversity: Diversity
