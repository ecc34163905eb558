"""Pools that ship with the package: a folder for each pool, and in it a folder of programs for each skill of games."""

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from spade.config import SKILLS
from spade.errors import RunError
from spade.pools.folder import PoolProgram, list_names, read_program
from spade.text import as_line

_POOLS = Path(__file__).parents[1] / "data" / "pools"


def read_shipped_programs(pool: str) -> Iterator[PoolProgram]:
    """Read the programs of a pool that ships. Raises RunError if no pool of this name ships."""
    shipped = sorted(path.name for path in _POOLS.iterdir() if path.is_dir())
    if pool not in shipped:
        raise RunError(f"no pool named {as_line(pool, 80)!r} ships; write one of {', '.join(shipped)}")
    return _read(_POOLS / pool)


def _read(pool: Path) -> Iterator[PoolProgram]:
    for skill in SKILLS:
        folder = pool / skill.replace(" ", "_")
        for name in list_names(folder):
            yield replace(read_program(folder, name), skill=skill, origin="ships with the package")
