"""Pools: environment programs that no designer of the run wrote. Their form on disk, and the order of drawing."""

from spade.pools.drawing import Drawing, Draws
from spade.pools.folder import (
    MOST_PROGRAMS,
    POOL,
    Entry,
    PoolList,
    PoolProgram,
    SeedPool,
    listed,
    names,
    read_program,
    write_program,
)

__all__ = [
    "MOST_PROGRAMS", "POOL", "Drawing", "Draws", "Entry", "PoolList", "PoolProgram", "SeedPool", "listed", "names",
    "read_program", "write_program",
]  # fmt: skip
