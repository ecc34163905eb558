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
    list_names,
    read_list,
    read_program,
    refuse_oversize,
    write_program,
)
from spade.pools.levels import Levels, LevelWindow, is_entry, set_level
from spade.pools.shipped import read_shipped_programs
from spade.pools.writing import MADE, make_writing_config

__all__ = [
    "MADE", "MOST_PROGRAMS", "POOL", "Drawing", "Draws", "Entry", "LevelWindow", "Levels", "PoolList", "PoolProgram",
    "ProgramLineage", "SeedPool", "is_entry", "list_names", "make_writing_config", "read_list", "read_program",
    "read_shipped_programs", "refuse_oversize", "set_level", "write_program",
]  # fmt: skip
