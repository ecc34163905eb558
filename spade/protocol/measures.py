"""Measures of programs. Env-runners and designers measure one program, the evaluator measures the newest together.

The evaluator and the replay service exchange the requests.
"""

from typing import Annotated

from msgspec import Meta

from spade.protocol.base import Count, Request, Wire
from spade.protocol.session import Done

MOST_PROGRAMS = 512  # programs in one measurement of diversity, which holds the similarities of all pairs


class Measures(Wire, frozen=True):
    """Measures of one program, defined in `docs/metrics.md`. None means not measured, or not known."""

    lines: Count | None = None
    """Lines of code, without blank lines and comments."""

    hidden_variables: Count | None = None
    """Attributes that hold something of the instance and that no text shows."""

    reveals: bool | None = None
    """True if the first observation reveals the method."""

    tools: Count | None = None
    """Number of tools. This and the next two fields are for programs with tools."""

    conditions: Annotated[float, Meta(ge=0, le=1e6)] | None = None
    """Mean number of conditions in a criterion."""

    guarded: bool | None = None
    """True if a tool has a guarded failure."""

    similarity: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Greatest similarity to a seed or to a program among the newest of the memory."""


class NewestPrograms(Wire, frozen=True):
    """The newest admitted programs."""

    sources: tuple[str, ...] = ()
    """Source texts, oldest first."""


class GetNewestPrograms(Request[NewestPrograms], frozen=True):
    """Ask the replay service for the newest admitted programs."""

    count: Annotated[int, Meta(ge=1, le=MOST_PROGRAMS)]
    """Number of programs. The reply has fewer if they would not fit into a message."""


class Diversity(Wire, frozen=True):
    """The diversity of the newest programs at one learner step."""

    step: Count
    """Newest published learner step at the time."""

    share: Annotated[float, Meta(gt=0, le=1)]
    """Vendi score divided by the number of programs, over 0 to 1."""

    programs: Annotated[int, Meta(ge=2, le=MOST_PROGRAMS)]
    """Number of programs that were compared."""

    embedding: str
    """Similarity measure: "tfidf", or the embedding model as configured."""

    seconds: float
    """Duration of the measurement."""


class MeasuredDiversity(Request[Done], frozen=True):
    """Report a measured diversity. If the newest one is sent again, the service ignores it.

    Refused: the figures make no sense.
    """

    diversity: Diversity
    """The measured diversity."""
