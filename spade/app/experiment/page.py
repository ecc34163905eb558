"""The page of an experiment: its tables, and the charts of `spade report` from the results of its runs."""

from collections.abc import Mapping

from replay.inspect.designs import DesignRecords
from spade.app.experiment.plan import Experiment, Piece
from spade.app.experiment.results import RunResult
from spade.app.experiment.table import describe_state, make_tables
from spade.app.report import page
from spade.app.report.arms import group_arms
from spade.app.report.collect import SavedRun
from spade.config import Config


def render(name: str, experiment: Experiment, results: Mapping[Piece, RunResult], made_at: float) -> str:
    """Render the whole page as HTML."""
    runs = [_convert_result(result, experiment.config(piece)) for piece, result in results.items()]
    found = group_arms([run.name for run in runs], [piece.arm for piece in results], [run.config for run in runs])
    lead = page.FirstSection(
        f"Experiment {name}", describe_state(experiment, results), make_tables(experiment, results)
    )
    return page.render(runs, found, made_at, lead)


def _convert_result(result: RunResult, config: Config) -> SavedRun:
    """Convert a result to the form of a report.

    Environments and health are missing, because they come from the store.
    """
    return SavedRun(
        str(result.piece), f"it made {result.steps} steps", "", config, None, None, result.journal, DesignRecords(), (),
        {}, {}, (),
    )  # fmt: skip
