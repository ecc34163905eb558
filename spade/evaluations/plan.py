"""An evaluation to play: its rules, its items, its samples."""

from typing import NamedTuple

import msgspec

from spade.evaluations.record import Scheduled
from spade.evaluations.rules import Rules


class SuiteItem(msgspec.Struct, frozen=True):
    """One problem: the text of its program and the seed of its instance. `name` is unique in its suite."""

    name: str
    category: str
    program: str
    seed: int = 0


class EvaluationPlan(NamedTuple):
    """One evaluation: its rules, its items by their names, its samples."""

    rules: Rules
    items: dict[str, SuiteItem]
    scheduled: Scheduled
