"""The tables of an experiment, as rows of text for a terminal and for a page. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from spade.app.experiment.analysis import (
    HELD_OUT,
    ArmSummary,
    Mean,
    PairSummary,
    list_missing,
    summarise_arms,
    summarise_pairs,
)
from spade.app.experiment.designed import PARTS, DesignedLevel, compute_mean_level
from spade.app.experiment.plan import Experiment, Piece
from spade.app.experiment.results import RunResult
from spade.text import as_line

MOST_MISSING = 24
LONGEST_CELL = 120


class TextTable(NamedTuple):
    """A table of texts. The first column names its rows."""

    title: str
    """The heading."""

    says: str
    """The explanation below the heading."""

    head: tuple[str, ...]
    """Names of the columns."""

    rows: tuple[tuple[str, ...], ...]
    """The rows, as long as the head."""

    def __str__(self) -> str:
        table = [tuple(as_line(cell, LONGEST_CELL) for cell in row) for row in (self.head, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
        return "\n".join([self.title, self.says, "", *lines])


def make_tables(experiment: Experiment, results: Mapping[Piece, RunResult]) -> list[TextTable]:
    """Return the tables of arms, of primary pairs, of exploratory pairs, and of designed levels."""
    arms, pairs = summarise_arms(experiment, results), summarise_pairs(experiment, results)
    kinds = (True, "Primary comparisons"), (False, "Exploratory comparisons")
    made = [_make_arm_table(arms)] if arms else []
    for primary, title in kinds:
        if rows := [row for row in pairs if row.primary == primary]:
            made.append(_make_pair_table(title, rows))
    return [*made, *_make_level_tables(experiment, results)]


def describe_state(experiment: Experiment, results: Mapping[Piece, RunResult]) -> str:
    """Describe the state of the grid in one line."""
    left, all_pieces = list_missing(experiment, results), experiment.pieces
    if not left:
        return f"finished: all {len(all_pieces)} runs are there"
    names = ", ".join(map(str, left[:MOST_MISSING])) + (", …" if len(left) > MOST_MISSING else "")
    return f"unfinished: {len(left)} of {len(all_pieces)} runs are missing: {names}"


def _make_arm_table(rows: Sequence[ArmSummary]) -> TextTable:
    names = _list_names([row.outcomes for row in rows])
    return TextTable(
        "Arms",
        "Means over runs with 95 % intervals. If some runs lack a figure, its cell says how many have it. The primary "
        f"outcome is “{HELD_OUT}”. “trajectories” counts the agent trajectories that were trained on. A matched arm "
        "trains on about as many as the arm that it is matched with.",
        ("arm", "runs", "steps", "trajectories", *names),
        tuple(
            (
                row.arm,
                f"{row.done} of {row.planned}",
                f"{row.steps.value:,.0f}",
                f"{row.trajectories.value:,.0f}",
                *_format_cells(row.outcomes, names, row.done),
            )
            for row in rows
        ),
    )


def _make_pair_table(title: str, rows: Sequence[PairSummary]) -> TextTable:
    names = _list_names([row.outcomes for row in rows])
    return TextTable(
        title,
        "Mean differences of runs with the same seed, first arm − second, with 95 % intervals.",
        ("pair", "seeds", *names),
        tuple(_make_pair_row(row, names) for row in rows),
    )


def _make_pair_row(row: PairSummary, names: Sequence[str]) -> tuple[str, ...]:
    seeds = row.outcomes[HELD_OUT].runs
    return " − ".join(row.pair), str(seeds), *_format_cells(row.outcomes, names, seeds)


def _make_level_tables(experiment: Experiment, results: Mapping[Piece, RunResult]) -> list[TextTable]:
    """Tabulate for each arm and part of its runs the mean level and the win rate of the designed programs."""
    arms = {name: [run.designed for run in results.values() if run.arm == name] for name in experiment.arms}
    rows = [
        (name, *(_format_level_cell(runs, part) for part in range(PARTS))) for name, runs in arms.items() if any(runs)
    ]
    says = (
        f"The programs designed in each of {PARTS} equal parts of the runs: their mean level, and the mean of the "
        "levels' win rates, weighted by the number of programs."
    )
    head = ("arm", *(f"part {part + 1}" for part in range(PARTS)))
    return [TextTable("Levels designed", says, head, tuple(rows))] if rows else []


def _format_level_cell(runs: Sequence[Sequence[DesignedLevel]], part: int) -> str:
    some = [each for designed in runs for each in designed if each.part == part]
    level = compute_mean_level(some, lambda _: True)
    known = [(each.count, each.win_rate) for each in some if each.level and each.win_rate is not None]
    count = sum(each for each, _ in known)
    won = f", won {sum(each * rate for each, rate in known) / count:.2f}" if count else ""
    return "–" if level is None else f"{level:.2f}{won}"


def _list_names(outcomes: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for each in outcomes for name in each))


def _format_cells(outcomes: Mapping[str, Mean], names: Sequence[str], runs: int) -> tuple[str, ...]:
    """Format the figures. If fewer than `runs` runs have a figure, its cell also tells how many do."""
    found = [outcomes.get(name) for name in names]
    return tuple(f"{each}{f' ({each.runs} of {runs})' if each.runs < runs else ''}" if each else "–" for each in found)
