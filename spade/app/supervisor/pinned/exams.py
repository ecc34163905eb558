"""Evaluations to be made, and how far they are."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from actors.suites import Suite
from actors.text.conversation import Talk
from spade.evaluations import EvaluationPlan, RecordFile, folder_of

_TOLD = 8  # times that progress is told, for each evaluation

Say = Callable[[str], None]


class Exam(NamedTuple):
    """An evaluation, and where it is kept: `root`/evaluations/…

    talks  makes the talk of each play
    data   the given file or folder
    """

    root: Path
    suite: Suite
    plan: EvaluationPlan
    talks: Callable[[], Talk]
    data: Path | None = None

    @property
    def folder(self) -> Path:
        """The folder of its records."""
        return folder_of(self.root, self.plan.rules)


Missing = Sequence[tuple[Exam, RecordFile]]
"""Evaluations, and the records to which they lack some."""


def progress(exam: Exam, kept: RecordFile, say: Say) -> Callable[[], None]:
    """Tells a few times how many samples have their record."""
    rules, all_of_them = exam.plan.rules, len(exam.plan.scheduled)
    step = max(1, all_of_them // _TOLD)

    def told() -> None:
        if len(kept.records) % step == 0 or len(kept.records) == all_of_them:
            say(f"{rules.suite}@{rules.protocol.name}: {len(kept.records)} of {all_of_them} samples")

    return told
