"""Judge the second half of an hour of nano by the rules of docs/experiment.md.

    python -m tests.bench.hour

Reads the published results of `nano-hour.toml`, `nano-limits.toml` and `nano-larger.toml`. Prints whether the held-out
win rate still rises, and for each change of the other two whether it suggests what limits the win rate.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from replay.inspect.journal import EvaluationRow
from spade.app.experiment.analysis import Mean, estimate_mean
from spade.app.experiment.plan import read_experiment
from spade.app.experiment.results import RunResult, read_results
from tests.bench.harness import command, conclude

ROOT = Path(__file__).parents[2]
FLAT = 0.02
"""The curve is flat if the interval of its rise contains 0 and lies within ± FLAT."""
TOP = "level 6"
LATEST = 2
"""Evaluations of an outcome."""
HALF = 160
"""The learner step at which an hour is compared with the runs of half of its length."""


def compute_rise(run: RunResult) -> float:
    """Return the mean win rate of the evaluations in the last quarter of a run, minus the mean in the third quarter."""
    half, last = run.steps / 2, run.steps * 3 / 4
    before = fmean(row.win_rate for row in run.evaluations if half < row.step <= last)
    return fmean(row.win_rate for row in run.evaluations if row.step > last) - before


def judge_rise(rise: Mean) -> str:
    """Say whether the curve still rises in the second half: "rising", "flat" or "open"."""
    if rise.low is None or rise.high is None:
        return "open"
    if rise.low > 0:
        return "rising"
    return "flat" if -FLAT <= rise.low <= 0 <= rise.high <= FLAT else "open"


def compute_top(evaluations: Sequence[EvaluationRow], until: int) -> float:
    """Return the win rate on the highest level in the last evaluations up to a learner step."""
    return fmean(row.categories[TOP] for row in [row for row in evaluations if row.step <= until][-LATEST:])


def read_published(name: str) -> dict[str, RunResult]:
    """Return the published results of an experiment, by the names of their runs."""
    plan = read_experiment(ROOT / "configs" / "experiments" / f"{name}.toml")
    return {str(piece): run for piece, run in read_results(ROOT / "docs" / "experiment" / name, plan).items()}


def main() -> None:
    """Print the verdicts."""
    asked = command(__doc__, out=None).parse_args()
    hours, changed = read_published("nano-hour"), read_published("nano-limits") | read_published("nano-larger")
    rises = {name: compute_rise(run) for name, run in hours.items()}
    rise = estimate_mean(list(rises.values()))
    unchanged = {name: compute_top(run.evaluations, HALF) for name, run in hours.items()}
    outcomes = {name: compute_top(run.evaluations, run.steps) for name, run in changed.items()}
    limits = {name: outcome > max(unchanged.values()) for name, outcome in outcomes.items()}
    lines = [
        *(f"{name}: the last quarter is {each:+.3f} above the third" for name, each in rises.items()),
        f"mean: {rise}, {judge_rise(rise)}",
        *(f"{name}: {TOP} {each:.3f} at step {HALF}" for name, each in unchanged.items()),
        *(
            f"{name}: {TOP} {each:.3f} at its end, {'suggests' if limits[name] else 'does not suggest'} a limit"
            for name, each in outcomes.items()
        ),
    ]
    figures = {"rises": rises, "rise": rise._asdict(), "unchanged": unchanged, "outcomes": outcomes, "limits": limits}
    conclude(asked.out, figures, "\n".join(lines))


if __name__ == "__main__":
    main()
