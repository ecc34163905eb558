"""The levels of the programs that a run's designers wrote, over the run."""

from collections.abc import Callable, Sequence
from math import fsum
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from actors.nano.games import level_of
from replay.inspect.designs import read_designs
from replay.ledger.records import Source
from replay.store import open_reader
from spade.app.report.curriculum import designs
from spade.app.report.series import part_of
from spade.app.rundir import RunDir

PARTS = 6
"""Equal parts of a run's learner steps."""
MOST_LEVELS = 256
"""Pairs of a part and a level."""


class DesignedLevel(msgspec.Struct, frozen=True):
    """Programs of one level that were designed in one part of a run, the first of PARTS being 0.

    level     0: a program that the world itself would not write at any level
    win_rate  mean over those of them whose window closed; None where none did
    """

    part: Annotated[int, Meta(ge=0, lt=PARTS)]
    level: Annotated[int, Meta(ge=0, le=1 << 10)]
    count: Annotated[int, Meta(ge=1, le=1 << 53)]
    win_rate: Annotated[float, Meta(ge=0, le=1)] | None


class LevelledProgram(NamedTuple):
    """A designed program: its part of the run, its level, and the share of its plays that was won."""

    part: int
    level: int
    win_rate: float | None


def designed_levels(run: RunDir, steps: int) -> list[DesignedLevel]:
    """The designs of a run of nano's games, which made so many learner steps, by part and level."""
    found = read_designs(run.store, lambda _: (), lambda _: (), str)
    known = [each for each in designs(found.environments, found.steps) if not each.environment.program]
    with open_reader(run.store) as store:
        sources = store.get_many("sources", [each.environment.id for each in known], Source)
    return by_level(
        [
            LevelledProgram(
                part_of(each.step, steps, PARTS),
                level_of(source.source) or 0,
                None if each.environment.score is None else each.environment.score.win_rate,
            )
            for each, source in zip(known, sources, strict=True)
        ]
    )


def by_level(written: Sequence[LevelledProgram]) -> list[DesignedLevel]:
    """The programs of each part and level."""
    cells: dict[tuple[int, int], list[LevelledProgram]] = {}
    for each in written:
        cells.setdefault((each.part, each.level), []).append(each)
    return [DesignedLevel(*cell, len(some), _won(some)) for cell, some in sorted(cells.items())]


def mean_level(levels: Sequence[DesignedLevel], within: Callable[[int], bool]) -> float | None:
    """The mean level of the designs of some parts; None where they have none of a known level."""
    some = [each for each in levels if within(each.part) and each.level]
    count = sum(each.count for each in some)
    return sum(each.level * each.count for each in some) / count if count else None


def _won(written: Sequence[LevelledProgram]) -> float | None:
    known = [each.win_rate for each in written if each.win_rate is not None]
    return fsum(known) / len(known) if known else None
