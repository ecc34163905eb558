"""Tables of what was designed over a run: by part of its learner steps, and by skill, level, win rate. Pure."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import fsum
from typing import NamedTuple

from replay.ledger.records import Environment
from spade.app.report.series import part_of
from spade.text import line

PARTS = 8
MOST_ROWS = 12
LONGEST_NAME = 200
_LEAST_COVERED = 1 / 3  # of the designs, by the rows of a table
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
SHADES = 5
"""Shades of a cell, from 0 for none."""
NEVER, SELDOM, OFTEN, ALWAYS = 0.1, 0.4, 0.6, 0.9
"""Win rates between which designs are told apart: the anchor pays for those of 40 % to 60 %."""


class Cell(NamedTuple):
    """Environments of a row in a part: how many, their mean unhinted win rate, and the shade of their number."""

    designs: int
    win_rate: float | None
    shade: int


class TableRow(NamedTuple):
    """A row with its cells, and the sum of them."""

    name: str
    cells: tuple[Cell, ...]
    total: Cell


class Table(NamedTuple):
    """Designs by row and part: `parts` are the learner steps of the columns; `left_out` rows are not shown."""

    title: str
    parts: tuple[str, ...]
    rows: tuple[TableRow, ...]
    left_out: int


class Design(NamedTuple):
    """An environment and the learner step of the policy that designed it."""

    step: int
    environment: Environment


def designs(environments: Sequence[Environment], steps: Mapping[int, int]) -> list[Design]:
    """The environments with the learner step at which they came, by `steps`: the learner step of each version.

    That is the step of the policy that designed one; a program of a pool has none, and came with its first play.
    """
    versions = (
        (each.designed_version or (each.chunks[0].version if each.chunks else 0), each) for each in environments
    )
    return [Design(steps[version], each) for version, each in versions if version in steps]


def tables(found: Sequence[Design]) -> list[Table]:
    """A table for each way to tell designs apart, unless it has no row, or its rows leave most designs out."""
    made = [_table(title, found, row_of, order) for title, row_of, order in _WAYS]
    return [table for table, told in made if told]


def hardness(environment: Environment) -> str:
    """The class of an environment's unhinted win rate, "" where it was not measured."""
    rate = None if environment.score is None else environment.score.win_rate
    if rate is None:
        return ""
    bounds = ((NEVER, "won under 10 %"), (SELDOM, "10 to 40 %"), (OFTEN, "40 to 60 %"), (ALWAYS, "60 to 90 %"))
    return next((words for bound, words in bounds if rate < bound), "90 % and over")


def _level(environment: Environment) -> str:
    return f"level {environment.level}" if environment.program else ""


def _last_word(environment: Environment) -> str:
    """The last word of a program's name, `Env` apart: nano's programs have their family there."""
    words = _WORDS.findall(environment.name[:LONGEST_NAME].removesuffix("Env"))
    return words[-1] if words and not environment.program else ""


def _often(rows: Mapping[str, int]) -> list[str]:
    return sorted(rows, key=lambda name: (-rows[name], name))


def _by_name(rows: Mapping[str, int]) -> list[str]:
    return sorted(rows, key=lambda name: (len(name), name) if name.startswith("level ") else (0, name))


def _by_hardness(rows: Mapping[str, int]) -> list[str]:
    order = ("won under 10 %", "10 to 40 %", "40 to 60 %", "60 to 90 %", "90 % and over")
    return [name for name in order if name in rows]


_WAYS: tuple[tuple[str, Callable[[Environment], str], Callable[[Mapping[str, int]], list[str]]], ...] = (
    ("By skill", lambda each: each.skill, _by_name),
    ("By unhinted win rate", hardness, _by_hardness),
    ("By variant", lambda each: each.variant, _often),
    ("By setting", lambda each: each.setting, _often),
    ("By level", _level, _by_name),
    ("By program of the pool", lambda each: each.program, _often),
    ("By the last word of the name", _last_word, _often),
)


def _table(
    title: str,
    found: Sequence[Design],
    row_of: Callable[[Environment], str],
    order: Callable[[Mapping[str, int]], list[str]],
) -> tuple[Table, bool]:
    """A table, and True if it tells something. Rows of no name are left out, as are those after MOST_ROWS."""
    first = min((each.step for each in found), default=0)
    span = max((each.step for each in found), default=0) - first
    columns = min(PARTS, span + 1)
    members: dict[tuple[str, int], list[Environment]] = {}
    for each in found:
        if name := row_of(each.environment):
            members.setdefault((name, part_of(each.step - first, span, columns)), []).append(each.environment)
    counts: Counter[str] = Counter()
    for (name, _), part in members.items():
        counts[name] += len(part)
    names = order(counts)
    most = max((len(part) for part in members.values()), default=1)
    rows = [_row(name, [members.get((name, part), []) for part in range(columns)], most) for name in names[:MOST_ROWS]]
    table = Table(title, _parts(first, span, columns), tuple(rows), len(names[MOST_ROWS:]))
    return table, bool(rows) and sum(row.total.designs for row in rows) >= _LEAST_COVERED * len(found)


def _row(name: str, parts: Sequence[Sequence[Environment]], most: int) -> TableRow:
    whole = [each for part in parts for each in part]
    return TableRow(line(name, LONGEST_NAME), tuple(_cell(part, most) for part in parts), _cell(whole, 0))


def _cell(part: Sequence[Environment], most: int) -> Cell:
    rates = [each.score.win_rate for each in part if each.score is not None and each.score.win_rate is not None]
    shade = -(-len(part) * SHADES // most) if most else 0
    return Cell(len(part), fsum(rates) / len(rates) if rates else None, shade)


def _parts(first: int, span: int, columns: int) -> tuple[str, ...]:
    """The learner steps of each column."""
    if span < columns:
        return tuple(str(first + part) for part in range(columns))
    edges = [first + -(-span * part // columns) for part in range(columns)]
    ends = [*(edge - 1 for edge in edges[1:]), first + span]
    return tuple(str(edge) if edge == end else f"{edge}–{end}" for edge, end in zip(edges, ends, strict=True))
