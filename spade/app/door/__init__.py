"""SPADE from Python: open a run, start a run, measure a policy. `import spade` loads this package on first use."""

from spade.app.door.command import EvaluationOptions, evaluate
from spade.app.door.run import FigureTable, FinishedPlay, OpenedRun, open_run
from spade.app.door.starting import StartedRun, start

__all__ = [
    "EvaluationOptions", "FigureTable", "FinishedPlay", "OpenedRun", "StartedRun", "evaluate", "open_run", "start",
]  # fmt: skip
