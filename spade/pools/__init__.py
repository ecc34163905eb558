"""Pools: environment programs that no designer of the run wrote. Their form on disk, and the order of drawing."""

from spade.pools.drawing import Drawing, Draws
from spade.pools.folder import (
    MOST_PROGRAMS,
    POOL,
    Entry,
    PoolList,
    PoolProgram,
    ProgramLineage,
    SeedPool,
    listed,
    names,
    read_program,
    write_program,
)
from spade.pools.levels import Levels, LevelWindow, at_level, is_entry
from spade.pools.shipped import shipped_programs
from spade.pools.writing import MADE, writing

__all__ = [
    "MADE", "MOST_PROGRAMS", "POOL", "Drawing", "Draws", "Entry", "LevelWindow", "Levels", "PoolList", "PoolProgram",
    "ProgramLineage", "SeedPool", "at_level", "is_entry", "listed", "names", "read_program", "shipped_programs",
    "write_program", "writing",
]  # fmt: skip
