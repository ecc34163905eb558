"""An evaluation to play: its rules, its items, its samples."""

from typing import NamedTuple

import msgspec

from spade.evaluations.record import SampleSchedule
from spade.evaluations.rules import Rules


class SuiteItem(msgspec.Struct, frozen=True):
    """One problem of a suite."""

    name: str
    """Name of the item, unique in its suite."""

    category: str
    """Category of the item."""

    program: str
    """Text of the item's program."""

    seed: int = 0
    """Seed of the item's instance."""


class EvaluationPlan(NamedTuple):
    """One evaluation to play."""

    rules: Rules
    """Rules of the evaluation."""

    items: dict[str, SuiteItem]
    """Items by name."""

    scheduled: SampleSchedule
    """Samples to play."""
