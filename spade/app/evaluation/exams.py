"""Evaluations to be made, and their progress."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from actors.suites import Suite
from actors.text.conversation import Talk
from spade.evaluations import EvaluationPlan, RecordFile, name_folder

_TOLD = 8  # progress messages for each evaluation

Say = Callable[[str], None]


class Exam(NamedTuple):
    """An evaluation to be made."""

    root: Path
    """The records go to `root`/evaluations/…"""

    suite: Suite
    """The suite."""

    plan: EvaluationPlan
    """The rules, items and samples."""

    talks: Callable[[], Talk]
    """Makes the talk of each play."""

    data: Path | None = None
    """The given file or folder."""

    @property
    def folder(self) -> Path:
        """Return the folder of its records."""
        return name_folder(self.root, self.plan.rules)


Missing = Sequence[tuple[Exam, RecordFile]]
"""Evaluations with their incomplete records."""


def report_progress(exam: Exam, kept: RecordFile, say: Say) -> Callable[[], None]:
    """Return a function that reports, a few times in total, how many samples have their record."""
    rules, all_of_them = exam.plan.rules, len(exam.plan.scheduled)
    step = max(1, all_of_them // _TOLD)

    def told() -> None:
        if len(kept.records) % step == 0 or len(kept.records) == all_of_them:
            say(f"{rules.suite}@{rules.protocol.name}: {len(kept.records)} of {all_of_them} samples")

    return told
