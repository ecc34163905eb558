"""Tables of the designs of a run: a column for each part of its steps, rows by skill, level or win rate. Pure."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import fsum
from typing import NamedTuple

from replay.ledger.records import Environment
from spade.app.report.series import find_part
from spade.text import as_line

PARTS = 8
MOST_ROWS = 12
LONGEST_NAME = 200
_LEAST_COVERED = 1 / 3  # least share of the designs that a table must cover
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
SHADES = 5
"""Number of shades of a cell with designs. A cell without designs has the shade 0."""
NEVER, SELDOM, OFTEN, ALWAYS = 0.1, 0.4, 0.6, 0.9
"""Bounds of the win rate classes. By default, the anchor of the designer's reward is 1 from 40 % to 60 %."""


class Cell(NamedTuple):
    """A table cell: the environments of one row that were designed in one part of the run."""

    designs: int
    """Number of environments."""

    win_rate: float | None
    """Mean unhinted win rate. None if it was never measured."""

    shade: int
    """Shade of the cell, 0 to SHADES. A larger number of environments gives a larger shade."""


class TableRow(NamedTuple):
    """A row with its cells and their total."""

    name: str
    """The name of the row."""

    cells: tuple[Cell, ...]
    """Its cells, one for each part of the run."""

    total: Cell
    """All environments of the row."""


class Table(NamedTuple):
    """A table of designs. Each column is a part of the run."""

    title: str
    """The table's title."""

    parts: tuple[str, ...]
    """The learner steps of each column."""

    rows: tuple[TableRow, ...]
    """The rows that are shown, at most MOST_ROWS."""

    left_out: int
    """Number of rows that are not shown."""


class Design(NamedTuple):
    """An environment and the learner step of the policy that designed it."""

    step: int
    """The learner step, see `pair_designs`."""

    environment: Environment
    """The environment."""


def pair_designs(environments: Sequence[Environment], steps: Mapping[int, int]) -> list[Design]:
    """Pair each environment with a learner step. `steps` maps versions to learner steps.

    For a designed environment, it is the step of the policy that designed it. For a program of a pool, it is the step
    of the newest policy when its first chunk began.
    """
    versions = (
        (each.designed_version or (each.chunks[0].version if each.chunks else 0), each) for each in environments
    )
    return [Design(steps[version], each) for version, each in versions if version in steps]


def make_tables(found: Sequence[Design]) -> list[Table]:
    """Make a table for each way to group designs. Skip tables without rows, and tables that cover too few designs."""
    made = [_make_table(title, found, row_of, order) for title, row_of, order in _WAYS]
    return [table for table, worth_showing in made if worth_showing]


def classify_hardness(environment: Environment) -> str:
    """Return the class of an environment's unhinted win rate, or "" if it was not measured."""
    rate = None if environment.score is None else environment.score.win_rate
    if rate is None:
        return ""
    bounds = ((NEVER, "won under 10 %"), (SELDOM, "10 to 40 %"), (OFTEN, "40 to 60 %"), (ALWAYS, "60 to 90 %"))
    return next((words for bound, words in bounds if rate < bound), "90 % and over")


def _name_level(environment: Environment) -> str:
    return f"level {environment.level}" if environment.program else ""


def _find_last_word(environment: Environment) -> str:
    """Return the last word of a program's name, without `Env`. In nano's programs it is the family."""
    words = _WORDS.findall(environment.name[:LONGEST_NAME].removesuffix("Env"))
    return words[-1] if words and not environment.program else ""


def _sort_by_count(rows: Mapping[str, int]) -> list[str]:
    return sorted(rows, key=lambda name: (-rows[name], name))


def _sort_by_name(rows: Mapping[str, int]) -> list[str]:
    return sorted(rows, key=lambda name: (len(name), name) if name.startswith("level ") else (0, name))


def _sort_by_hardness(rows: Mapping[str, int]) -> list[str]:
    order = ("won under 10 %", "10 to 40 %", "40 to 60 %", "60 to 90 %", "90 % and over")
    return [name for name in order if name in rows]


_WAYS: tuple[tuple[str, Callable[[Environment], str], Callable[[Mapping[str, int]], list[str]]], ...] = (
    ("By skill", lambda each: each.skill, _sort_by_name),
    ("By unhinted win rate", classify_hardness, _sort_by_hardness),
    ("By variant", lambda each: each.variant, _sort_by_count),
    ("By setting", lambda each: each.setting, _sort_by_count),
    ("By level", _name_level, _sort_by_name),
    ("By program of the pool", lambda each: each.program, _sort_by_count),
    ("By the last word of the name", _find_last_word, _sort_by_count),
)


def _make_table(
    title: str,
    found: Sequence[Design],
    row_of: Callable[[Environment], str],
    order: Callable[[Mapping[str, int]], list[str]],
) -> tuple[Table, bool]:
    """Make a table, and tell whether it is worth showing.

    Leaves out rows over MOST_ROWS, and designs for which `row_of` returns "".
    """
    first = min((each.step for each in found), default=0)
    span = max((each.step for each in found), default=0) - first
    columns = min(PARTS, span + 1)
    members: dict[tuple[str, int], list[Environment]] = {}
    for each in found:
        if name := row_of(each.environment):
            members.setdefault((name, find_part(each.step - first, span, columns)), []).append(each.environment)
    counts: Counter[str] = Counter()
    for (name, _), part in members.items():
        counts[name] += len(part)
    names = order(counts)
    most = max((len(part) for part in members.values()), default=1)
    rows = [
        _make_row(name, [members.get((name, part), []) for part in range(columns)], most) for name in names[:MOST_ROWS]
    ]
    table = Table(title, _name_parts(first, span, columns), tuple(rows), len(names[MOST_ROWS:]))
    return table, bool(rows) and sum(row.total.designs for row in rows) >= _LEAST_COVERED * len(found)


def _make_row(name: str, parts: Sequence[Sequence[Environment]], most: int) -> TableRow:
    whole = [each for part in parts for each in part]
    return TableRow(as_line(name, LONGEST_NAME), tuple(_make_cell(part, most) for part in parts), _make_cell(whole, 0))


def _make_cell(part: Sequence[Environment], most: int) -> Cell:
    rates = [each.score.win_rate for each in part if each.score is not None and each.score.win_rate is not None]
    shade = -(-len(part) * SHADES // most) if most else 0
    return Cell(len(part), fsum(rates) / len(rates) if rates else None, shade)


def _name_parts(first: int, span: int, columns: int) -> tuple[str, ...]:
    """Return the learner steps of each column."""
    if span < columns:
        return tuple(str(first + part) for part in range(columns))
    edges = [first + -(-span * part // columns) for part in range(columns)]
    ends = [*(edge - 1 for edge in edges[1:]), first + span]
    return tuple(str(edge) if edge == end else f"{edge}–{end}" for edge, end in zip(edges, ends, strict=True))
