"""Import a foreign pool: read its programs, admit each one, and write the admitted ones."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, get_args

from msgspec.structs import replace

from spade.app.pools.admission import RejectedPrograms, admit
from spade.app.pools.servers import SERVER, read_server
from spade.app.pools.tables import is_table, read_table
from spade.app.supervisor.pools import SOURCES, write_pool
from spade.config import Config, PoolLibrary
from spade.errors import RunError
from spade.pools import MOST_PROGRAMS

LOG = ".import"
"""Suffix of the log beside the pool, which keeps the verdicts until the pool is complete."""


class ImportedPool(NamedTuple):
    """The outcome of an import."""

    programs: int
    """Number of programs of the source."""

    admitted: int
    """Number of programs in the pool."""

    rejections: RejectedPrograms
    """The rejected programs, by stage."""


def import_programs(source: str, out: Path, config: Config, say: Callable[[str], None]) -> ImportedPool:
    """Judge all programs of a source. Then write the programs that pass admission as the pool `out`.

    Raises ConfigError or RunError if the source cannot be read, `out` exists, or no program is admitted.
    """
    if os.path.lexists(out):
        raise RunError(f"{out}: exists already; give a new directory")
    kind, _, names = source.partition(":")
    library = kind in get_args(PoolLibrary)
    if library:
        loaded = tuple(sorted({*config.sandbox.libraries, kind}))
        config = replace(config, sandbox=replace(config.sandbox, libraries=loaded))
        programs = list(SOURCES[kind](names))
    elif kind == SERVER:
        server, programs = read_server(names)
        config = replace(config, sandbox=replace(config.sandbox, servers=(server,)))
    else:
        programs = read_table(source) if is_table(source) else list(SOURCES["folder"](source))
    if len(programs) > MOST_PROGRAMS:
        raise RunError(f"{source}: has {len(programs)} programs; a pool holds at most {MOST_PROGRAMS}")
    out.parent.mkdir(parents=True, exist_ok=True)
    log = out.with_name(out.name + LOG)
    admitted, rejections = admit(programs, config, log, library or kind == SERVER, say)
    if not admitted:
        for row in rejections.rows():
            say(row)
        log.unlink(missing_ok=True)
        raise RunError(f"{source}: none of {len(programs)} programs is admitted")
    write_pool(out, iter(admitted))
    log.unlink(missing_ok=True)
    return ImportedPool(len(programs), len(admitted), rejections)
