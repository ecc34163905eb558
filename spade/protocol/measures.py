"""Measures of programs, and messages between the evaluator and the replay service.

Env-runners and designers measure single programs. The evaluator measures the diversity of the newest programs.
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
    """Number of attributes of `self` that hold data of the instance and that no observation shows."""

    reveals: bool | None = None
    """True if the first observation states the rule that the player should find out."""

    tools: Count | None = None
    """Number of tools. This and the next two fields are for programs with tools."""

    conditions: Annotated[float, Meta(ge=0, le=1e6)] | None = None
    """Mean number of comparisons and Boolean operators in the criterion of an instruction."""

    guarded: bool | None = None
    """True if a tool that changes the state also has a branch that returns without a change."""

    similarity: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Similarity to the most similar program among the seeds and the newest programs of the memory."""


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
    """Learner step of the newest weights when the diversity was measured."""

    share: Annotated[float, Meta(gt=0, le=1)]
    """Vendi score divided by the number of programs: greater than 0, at most 1."""

    programs: Annotated[int, Meta(ge=2, le=MOST_PROGRAMS)]
    """Number of programs that were compared."""

    embedding: str
    """Similarity measure: "tfidf", or the embedding model as configured."""

    seconds: float
    """Duration of the measurement."""


class MeasuredDiversity(Request[Done], frozen=True):
    """Report a measured diversity. The service ignores a repetition of the newest report.

    The reply is `Refused` if the figures are impossible.
    """

    diversity: Diversity
    """The measured diversity."""
