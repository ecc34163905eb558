"""Find the figures that announce a collapse, by the rules of docs/experiment.md ("The analysis of a collapse").

    python -m tests.bench.collapse runs/experiment-*/runs/*

Reads each run's journal, settings and designs. Runs with an even seed choose the thresholds, runs with an odd seed
test them. Prints a row for each figure: its threshold, the false alarms, and how many learner steps it leads a
collapse.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from actors.nano.games import FAMILIES as GAME_FAMILIES
from actors.nano.prompts import match_family
from actors.nano.tools import FAMILIES as TOOL_FAMILIES
from replay.inspect.designs import read_designs
from replay.inspect.journal import EvaluationRow, JournalRows, read_journal
from spade.app.report.curriculum import pair_designs
from spade.app.rundir import RunDir
from tests.bench.harness import command, conclude

HOLD = 10
"""Learner steps in a row that a figure must be beyond its threshold."""
QUIET = 20
"""First learner steps, which raise no alarm."""
LEAST_VALIDITY = 0.5
LOST = 0.1
"""A greater fall of the held-out win rate below its best is a collapse."""
MOST_FALSE = 1 / 20
FAMILY_DESIGNS = 48
"""Newest designs of which the share of the most frequent family is counted."""
JOURNAL_FIGURES = {"validity": -1, "learnable_share": -1, "zero_variance_share": 1, "similarity": 1, "entropy": -1}
"""1 if a high figure is bad, -1 if a low one is."""
FIGURES = {**JOURNAL_FIGURES, "family_share": 1}
"""The same with the share of the most frequent family, which is counted from the store."""


class Run(NamedTuple):
    """A run's figures by learner step."""

    name: str
    seed: int
    steps: tuple[int, ...]
    figures: dict[str, tuple[float | None, ...]]
    collapse: int | None
    """The step of its collapse. None for a healthy run."""


class Announced(NamedTuple):
    """A figure's threshold, with its false alarms and leads in the test runs."""

    threshold: float | None
    """None if no threshold has few enough false alarms."""
    false_alarms: tuple[int, int]
    """Healthy test runs with an alarm, and all healthy test runs."""
    leads: tuple[int | None, ...]
    """For each collapsed test run: the steps from the alarm to the collapse. None without an alarm before it."""

    @property
    def is_chosen(self) -> bool:
        """True if the figure is used by the rules."""
        leads = [lead for lead in self.leads if lead is not None]
        alarms, healthy = self.false_alarms
        early = bool(leads) and 3 * len(leads) >= 2 * len(self.leads) and median(leads) >= HOLD
        return self.threshold is not None and early and 10 * alarms <= healthy


def find_held(steps: Sequence[int], values: Sequence[float | None], beyond: Callable[[float], bool]) -> int | None:
    """Return the step at which a figure has been beyond for HOLD steps in a row, after QUIET. None if it never is."""
    row = 0
    for step, value in zip(steps, values, strict=True):
        row = row + 1 if step > QUIET and value is not None and beyond(value) else 0
        if row == HOLD:
            return step
    return None


def find_collapse(
    steps: Sequence[int], validity: Sequence[float | None], held_out: Sequence[EvaluationRow]
) -> int | None:
    """Return the step at which a run collapsed, or None."""
    if (held := find_held(steps, validity, lambda value: value < LEAST_VALIDITY)) is not None:
        return steps[steps.index(held) - HOLD + 1]
    best = max(held_out, key=lambda row: row.win_rate, default=None)
    return best.step if best and best.win_rate - held_out[-1].win_rate > LOST else None


def make_run(name: str, seed: int, rows: JournalRows, designs: Sequence[tuple[int, str]]) -> Run:
    """Take the figures of a journal, and the step and the family of each design, the oldest first."""
    steps = tuple(row.learner_step for row in rows.steps)
    figures = {figure: tuple(getattr(row, figure) for row in rows.steps) for figure in JOURNAL_FIGURES}
    figures["family_share"] = tuple(find_family_share(designs, step) for step in steps)
    return Run(name, seed, steps, figures, find_collapse(steps, figures["validity"], rows.evaluations))


def find_family_share(designs: Sequence[tuple[int, str]], step: int) -> float | None:
    """Return the share of the most frequent family among the newest designs at a step. None if they are too few."""
    newest = [family for at, family in designs if at <= step][-FAMILY_DESIGNS:]
    return max(Counter(newest).values()) / FAMILY_DESIGNS if len(newest) == FAMILY_DESIGNS else None


def find_alarm(run: Run, figure: str, threshold: float) -> int | None:
    """Return the step at which a figure raises an alarm, or None."""
    sign = FIGURES[figure]
    return find_held(run.steps, run.figures[figure], lambda value: sign * value > sign * threshold)


def choose_threshold(healthy: Sequence[Run], figure: str) -> float | None:
    """Return the threshold nearest to healthy that few enough healthy runs pass, or None.

    A run passes a threshold if all values of HOLD steps in a row are beyond it. So each run has one value that it just
    does not pass: the best of the worst values of such rows.
    """
    sign, limits = FIGURES[figure], list[float]()
    for run in healthy:
        known = [value for step, value in zip(run.steps, run.figures[figure], strict=True) if step > QUIET]
        rows = [known[at : at + HOLD] for at in range(len(known) - HOLD + 1)]
        whole = [[sign * value for value in row if value is not None] for row in rows]
        limits += [max(min(row) for row in whole if len(row) == HOLD)] if any(len(r) == HOLD for r in whole) else []
    limits.sort(reverse=True)
    allowed = int(len(healthy) * MOST_FALSE)
    return sign * limits[allowed] if allowed < len(limits) else None


def announce(runs: Sequence[Run]) -> dict[str, Announced]:
    """Judge each figure: runs with an even seed choose its threshold, runs with an odd seed test it."""
    healthy = [run for run in runs if run.collapse is None and run.seed % 2 == 0]
    tests = [run for run in runs if run.seed % 2]
    found = {}
    for figure in FIGURES:
        threshold = choose_threshold(healthy, figure)
        alarms = [(run, None if threshold is None else find_alarm(run, figure, threshold)) for run in tests]
        sound = [alarm for run, alarm in alarms if run.collapse is None]
        leads = [
            run.collapse - alarm if alarm is not None and alarm < run.collapse else None
            for run, alarm in alarms
            if run.collapse is not None
        ]
        found[figure] = Announced(threshold, (sum(a is not None for a in sound), len(sound)), tuple(leads))
    return found


def read_run(folder: Path) -> Run:
    """Read a run's journal, its seed, and its designs. A run without a store has no designs."""
    run = RunDir(folder)
    rows = read_journal(folder / "metrics.jsonl")
    return make_run(folder.name, run.config().run.seed or 0, rows, read_families(run) if run.store.exists() else ())


def read_families(run: RunDir) -> list[tuple[int, str]]:
    """Return the step and the family of each program that a designer of the run wrote."""
    found = read_designs(run.store, lambda _: (), lambda _: (), str)
    families = [*GAME_FAMILIES, *TOOL_FAMILIES]
    return [
        (each.step, family.name if (family := match_family(families, each.environment.name)) else "")
        for each in pair_designs(found.environments, found.steps)
        if not each.environment.program
    ]


def main() -> None:
    """Print what the figures of the given runs announce."""
    parser = command(__doc__, out=None)
    parser.add_argument("runs", nargs="+", type=Path)
    asked = parser.parse_args()
    runs = [read_run(folder) for folder in asked.runs]
    found = {figure: {**each._asdict(), "chosen": each.is_chosen} for figure, each in announce(runs).items()}
    lines = [
        f"{run.name}: {'healthy' if run.collapse is None else f'collapsed at step {run.collapse}'}" for run in runs
    ]
    conclude(asked.out, found, "\n".join([*lines, *(f"{figure}: {each}" for figure, each in found.items())]))


if __name__ == "__main__":
    main()
