"""Evaluations to be made, and reports of their progress."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from actors.suites import Suite
from actors.text.conversation import ChatFormat
from spade.evaluations import EvaluationPlan, RecordFile, name_folder
from spade.progress import is_displayed, show

_MESSAGES = 8  # progress messages of one evaluation

Say = Callable[[str], None]


class PlannedEvaluation(NamedTuple):
    """An evaluation to be made."""

    root: Path
    """The records go to `root`/evaluations/…"""

    suite: Suite
    """The suite to play."""

    plan: EvaluationPlan
    """The rules, items and samples."""

    chat_formats: Callable[[], ChatFormat]
    """Makes the chat format of each play."""

    data: Path | None = None
    """The file or folder of `--data`, if one was given."""

    @property
    def folder(self) -> Path:
        """Return the folder of its records."""
        return name_folder(self.root, self.plan.rules)


Missing = Sequence[tuple[PlannedEvaluation, RecordFile]]
"""Evaluations with their incomplete records."""


def show_samples(exam: PlannedEvaluation, kept: RecordFile) -> AbstractContextManager[object]:
    """Show how many samples are recorded, while the block runs."""
    return show(_name_rules(exam), len(exam.plan.scheduled), lambda: len(kept.records))


def report_progress(exam: PlannedEvaluation, kept: RecordFile, say: Say) -> Callable[[], None]:
    """Return a function to call after each record. It prints the progress a few times, unless a bar is shown."""
    all_of_them = len(exam.plan.scheduled)
    step = max(1, all_of_them // _MESSAGES)

    def say_progress() -> None:
        if not is_displayed() and (len(kept.records) % step == 0 or len(kept.records) == all_of_them):
            say(f"{_name_rules(exam)}: {len(kept.records)} of {all_of_them} samples")

    return say_progress


def _name_rules(exam: PlannedEvaluation) -> str:
    return f"{exam.plan.rules.suite}@{exam.plan.rules.protocol.name}"
