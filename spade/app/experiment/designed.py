"""Count the programs that a run's designers wrote, by level and by part of the run."""

from collections.abc import Callable, Sequence
from math import fsum
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from actors.nano.games import find_family, find_level
from actors.nano.levels import LEVELS
from replay.inspect.designs import read_designs
from replay.ledger.records import Source
from replay.store import open_reader
from spade.app.report.curriculum import pair_designs
from spade.app.report.series import find_part
from spade.app.rundir import RunDir

PARTS = 6
"""Number of equal parts of a run's learner steps."""
MOST_LEVELS = 256
"""Most pairs of part and level in one result."""


class DesignedLevel(msgspec.Struct, frozen=True):
    """Programs of one level that were designed in one part of a run."""

    part: Annotated[int, Meta(ge=0, lt=PARTS)]
    """Part of the run, 0 to PARTS - 1."""

    level: Annotated[int, Meta(ge=0, le=1 << 10)]
    """Level of the programs. 0 for programs that nano's own generator cannot write at any level."""

    count: Annotated[int, Meta(ge=1, le=1 << 53)]
    """Number of programs."""

    win_rate: Annotated[float, Meta(ge=0, le=1)] | None
    """Mean win rate over the programs with a closed window. None without such a program."""


class LevelledProgram(NamedTuple):
    """A designed program."""

    part: int
    """Part of the run in which it was designed, 0 to PARTS - 1."""

    level: int
    """Level of the program. 0 as in `DesignedLevel`."""

    win_rate: float | None
    """Share of its plays that were won, or None if it was not measured."""

    family: str
    """Family of the program, or "" if it has none."""


def read_levelled_programs(run: RunDir, steps: int) -> list[LevelledProgram]:
    """Read the designed programs of a run of nano's games. The run made `steps` learner steps."""
    found = read_designs(run.store, lambda _: (), lambda _: (), str)
    known = [each for each in pair_designs(found.environments, found.steps) if not each.environment.program]
    with open_reader(run.store) as store:
        sources = store.get_many("sources", [each.environment.id for each in known], Source)
    return [
        LevelledProgram(
            find_part(each.step, steps, PARTS),
            find_level(source.source) or 0,
            None if each.environment.score is None else each.environment.score.win_rate,
            find_family(source.source) or "",
        )
        for each, source in zip(known, sources, strict=True)
    ]


def group_by_level(written: Sequence[LevelledProgram]) -> list[DesignedLevel]:
    """Group programs by part and level."""
    cells: dict[tuple[int, int], list[LevelledProgram]] = {}
    for each in written:
        cells.setdefault((each.part, each.level), []).append(each)
    return [DesignedLevel(*cell, len(some), _compute_win_rate(some)) for cell, some in sorted(cells.items())]


def count_top_families(written: Sequence[LevelledProgram]) -> int:
    """Count the families with a program of the highest level that has both won and lost plays."""
    return len({each.family for each in written if each.level == LEVELS and 0 < (each.win_rate or 0.0) < 1})


def compute_mean_level(levels: Sequence[DesignedLevel], within: Callable[[int], bool]) -> float | None:
    """Return the mean level of the programs in the parts that `within` accepts. None without a program with a level."""
    some = [each for each in levels if within(each.part) and each.level]
    count = sum(each.count for each in some)
    return sum(each.level * each.count for each in some) / count if count else None


def _compute_win_rate(written: Sequence[LevelledProgram]) -> float | None:
    known = [each.win_rate for each in written if each.win_rate is not None]
    return fsum(known) / len(known) if known else None
