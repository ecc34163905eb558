"""Outcomes of an experiment: means of arms, paired differences by seed, 95 % intervals. Pure.

The primary outcome is HELD_OUT: the share of held-out items that the last policy wins, as a mean over categories.
"""

from collections.abc import Callable, Mapping, Sequence
from math import fsum
from typing import NamedTuple

from spade.app.experiment.designed import PARTS, compute_mean_level
from spade.app.experiment.plan import Experiment, Piece
from spade.app.experiment.results import RunResult
from spade.estimates import compute_mean_and_error, compute_student_quantile

HELD_OUT = "held out"
RISE = "rise in the last third"


class Mean(NamedTuple):
    """A mean over runs, or over pairs of runs, with Student's interval of 95 %.

    A single value, or equal values, give no interval, because their spread does not predict other runs.
    """

    value: float
    """The mean value."""

    low: float | None
    """The lower end of the interval, or None."""

    high: float | None
    """The upper end of the interval, or None."""

    runs: int
    """Number of runs or pairs."""

    def __str__(self) -> str:
        bracket = "" if self.low is None else f" [{self.low:z.3f}, {self.high:z.3f}]"
        return f"{self.value:z.3f}{bracket}"


class ArmSummary(NamedTuple):
    """The results of an arm."""

    arm: str
    """The arm's name."""

    done: int
    """Number of runs with results."""

    planned: int
    """Number of planned runs."""

    steps: Mean
    """Mean number of learner steps."""

    trajectories: Mean
    """Mean number of agent trajectories that were trained on."""

    outcomes: dict[str, Mean]
    """Mean of each outcome, by name."""


class PairSummary(NamedTuple):
    """The differences of two arms, first − second, paired by seed."""

    pair: tuple[str, str]
    """The names of the two arms."""

    primary: bool
    """True for a primary comparison."""

    outcomes: dict[str, Mean]
    """Mean differences by outcome."""


def collect_outcomes(result: RunResult) -> dict[str, float]:
    """Return the figures of a run that are compared. Unmeasured figures are left out.

    Figures by learner step are means over the last third of the run's steps. Designed levels are also averaged over the
    first third, and count only programs that nano's own generator can write. RISE is the mean of the evaluations in the
    second half of the last third minus the mean in its first half.
    """
    third = result.steps * 2 / 3
    sixth = result.steps * 5 / 6
    won = [
        (row.step, _compute_mean(list(row.categories.values())) if row.categories else row.win_rate)
        for row in result.evaluations
    ]
    before = [value for step, value in won if third < step <= sixth]
    after = [value for step, value in won if step > sixth]
    late = [row for row in result.rows if row.learner_step > third]
    found: dict[str, float | None] = {
        HELD_OUT: _compute_mean([share.mean for share in result.held_out.values()]),
        **{name: share.mean for name, share in result.held_out.items() if name not in ("", HELD_OUT)},
        RISE: _compute_mean(after) - _compute_mean(before) if before and after else None,
        "learnable share": _compute_known_mean([row.learnable_share for row in late]),
        "regret": _compute_known_mean([row.regret for row in late]),
        "validity": _compute_known_mean([row.validity for row in late]),
        "diversity": _compute_known_mean([row.share for row in result.diversities if row.step > third]),
        "level designed first": compute_mean_level(result.designed, lambda part: part < PARTS // 3),
        "families met at the top": result.top_families,
        "level designed last": compute_mean_level(result.designed, lambda part: part >= PARTS - PARTS // 3),
    }
    return {name: value for name, value in found.items() if value is not None}


def summarise_arms(experiment: Experiment, results: Mapping[Piece, RunResult]) -> list[ArmSummary]:
    """Summarise the arms that have at least one result."""
    rows = []
    for name, arm in experiment.arms.items():
        runs = [results[piece] for seed in arm.seeds if (piece := Piece(name, seed)) in results]
        if runs:
            measured = [collect_outcomes(run) for run in runs]
            steps, trajectories = (estimate_mean([get(run) for run in runs]) for get in _TOTALS)
            rows.append(ArmSummary(name, len(runs), len(arm.seeds), steps, trajectories, _compute_means(measured)))
    return rows


def summarise_pairs(experiment: Experiment, results: Mapping[Piece, RunResult]) -> list[PairSummary]:
    """Compare the pairs of arms that have results with a seed in common."""
    rows = []
    for one, other in experiment.pairs:
        both = [
            (results[Piece(one, seed)], results[Piece(other, seed)])
            for seed in experiment.arms[one].seeds
            if Piece(one, seed) in results and Piece(other, seed) in results
        ]
        if both:
            deltas = [_compute_difference(collect_outcomes(ours), collect_outcomes(theirs)) for ours, theirs in both]
            rows.append(PairSummary((one, other), (one, other) in experiment.primary, _compute_means(deltas)))
    return rows


def estimate_mean(values: Sequence[float]) -> Mean:
    """Return the mean of the values of at least one run or pair, with its interval."""
    mean, error = compute_mean_and_error(values)
    if error is None or min(values) == max(values):
        return Mean(mean, None, None, len(values))
    half = compute_student_quantile(len(values) - 1) * error
    return Mean(mean, mean - half, mean + half, len(values))


def list_missing(experiment: Experiment, results: Mapping[Piece, RunResult]) -> list[Piece]:
    """Return the runs without results."""
    return [piece for piece in experiment.pieces if piece not in results]


_TOTALS: tuple[Callable[[RunResult], int], ...] = (lambda run: run.steps, lambda run: run.agent)


def _compute_difference(ours: Mapping[str, float], theirs: Mapping[str, float]) -> dict[str, float]:
    return {name: value - theirs[name] for name, value in ours.items() if name in theirs}


def _compute_means(measured: Sequence[Mapping[str, float]]) -> dict[str, Mean]:
    """Return the mean of each figure over the runs that have the figure."""
    names = dict.fromkeys(name for figures in measured for name in figures)
    return {name: estimate_mean([figures[name] for figures in measured if name in figures]) for name in names}


def _compute_known_mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _compute_mean(known) if known else None


def _compute_mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)
