"""Read the rows of a run's `metrics.jsonl`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, BinaryIO, TypeVar

import msgspec
from msgspec import Meta

from spade.decoding import UnreadableError, try_decode
from spade.disk import open_for_reading
from spade.protocol import Evaluation, Recent

ROW_BYTES = 1 << 22
"""Greatest length of a row in bytes. A longer row counts as unreadable."""

Step = Annotated[int, Meta(ge=0, le=1 << 53)]
Figure = float | None


class StepRow(Recent, frozen=True, kw_only=True, array_like=False, tag_field="kind", tag="step"):
    """One learner step. `docs/metrics.md` defines names, units and windows. A figure that was not measured is None."""

    learner_step: Step
    elapsed_s: float = 0.0
    plays: Figure = None
    environments: Figure = None
    level_low: Figure = None
    level_high: Figure = None
    plays_per_s: Figure = None
    sampled_tokens_per_s: Figure = None
    lag_mean: Figure = None
    wasted_share_agent: Figure = None
    wasted_share_designer: Figure = None
    backlog: Figure = None
    broadcast_s: Figure = None
    step_s: Figure = None
    wait_s: Figure = None
    loss: Figure = None
    entropy: Figure = None
    grad_norm: Figure = None
    mismatch: Figure = None
    effective_sample_share: Figure = None
    agent_sequences: Figure = None
    designer_sequences: Figure = None


class EvaluationRow(msgspec.Struct, frozen=True, tag_field="kind", tag="evaluation"):
    """One evaluation."""

    step: Step
    """The learner step of the evaluated policy."""
    plays: Annotated[int, Meta(ge=1, le=1 << 53)]
    win_rate: Annotated[float, Meta(ge=0, le=1)]
    """Share of won plays of each item, averaged over the items."""
    error: Annotated[float, Meta(ge=0, le=1)] | None = None
    suite: str = ""
    """The suite; "" if a folder of programs was played."""
    categories: dict[str, float] = {}
    measure: str = ""
    """Digest of all that decides what is played. Win rates with different digests cannot be compared."""


class DiversityRow(msgspec.Struct, frozen=True, tag_field="kind", tag="diversity"):
    """One measurement of the diversity."""

    step: Step
    share: float


class EventRow(msgspec.Struct, frozen=True, tag_field="kind", tag="event"):
    """An event of the run."""

    event: str
    elapsed_s: float = 0.0
    changed: dict[str, tuple[str, str]] = {}
    """Settings that differ from before, as "section.field": (before, now)."""
    why: str = ""


Kind = TypeVar("Kind")
Key = TypeVar("Key", int, tuple[int, str])
AnyEvaluation = TypeVar("AnyEvaluation", Evaluation, EvaluationRow)
Row = StepRow | EvaluationRow | DiversityRow | EventRow

_rows: msgspec.json.Decoder[Row] = msgspec.json.Decoder(Row)


class JournalRows(msgspec.Struct, frozen=True):
    """The rows of each kind in the order of their steps. Events are in the order of the file.

    If a step was repeated, or evaluated again on the same suite, only the last row is kept.
    """

    steps: tuple[StepRow, ...] = ()
    """One row for each learner step (docs/metrics.md)."""
    evaluations: tuple[EvaluationRow, ...] = ()
    """Evaluations of the run."""
    diversities: tuple[DiversityRow, ...] = ()
    """Measurements of diversity."""
    events: tuple[EventRow, ...] = ()
    """Starts and ends of the run, and other events."""
    unreadable: int = 0
    """Number of rows that cannot be read."""

    @property
    def gap(self) -> str:
        """State how many rows cannot be read. Returns "" if all rows can be read."""
        return f"metrics.jsonl: {self.unreadable} rows cannot be read and are left out" if self.unreadable else ""


def find_comparable(evaluations: Sequence[AnyEvaluation]) -> tuple[AnyEvaluation, ...]:
    """Return the evaluations with the suite and the `measure` of the newest one. A resumed run may change its rules.

    Includes rows of this suite from earlier versions, which have no `measure`.
    """
    return tuple(
        one
        for one in evaluations
        if one.suite == evaluations[-1].suite and one.measure in ("", evaluations[-1].measure)
    )


def read_journal(file: Path) -> JournalRows:
    """Read the rows of a `metrics.jsonl`. Counts rows that cannot be read, such as a last row that is half written.

    Raises OSError, RunError.
    """
    steps: dict[int, StepRow] = {}
    evaluations: dict[tuple[int, str], EvaluationRow] = {}
    diversities: dict[int, DiversityRow] = {}
    events: list[EventRow] = []
    unreadable = 0
    with open_for_reading(file) as opened:
        for line in _read_lines(opened):
            try:
                row = try_decode(_rows.decode, line)
            except UnreadableError:
                unreadable += 1
                continue
            match row:
                case StepRow():
                    steps[row.learner_step] = row
                case EvaluationRow():
                    evaluations[row.step, row.suite] = row
                case DiversityRow():
                    diversities[row.step] = row
                case EventRow():
                    events.append(row)
    return JournalRows(_sort_rows(steps), _sort_rows(evaluations), _sort_rows(diversities), tuple(events), unreadable)


def _sort_rows(rows: dict[Key, Kind]) -> tuple[Kind, ...]:
    return tuple(rows[key] for key in sorted(rows))


def _read_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines that are not blank.

    If a line is longer than ROW_BYTES, yield only its beginning, which is never valid JSON.
    """
    while line := file.readline(ROW_BYTES):
        part = line
        while len(part) == ROW_BYTES and not part.endswith(b"\n"):
            part = file.readline(ROW_BYTES)
        if line.strip():
            yield line
