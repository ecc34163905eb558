"""`spade env export`: write environments of a run in a form that other programs read."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spade.app.commands.options import RunArgument, known_skills
from spade.app.printing import say
from spade.errors import RunError
from spade.text import as_line

if TYPE_CHECKING:
    from replay.inspect.pool import FigureBounds

_BOUNDS = re.compile(r"(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?)")


def export(
    run: RunArgument,
    out: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write; must not exist.")],
    format: Annotated[
        Literal["files", "hub", "parquet", "jsonl", "gymnasium", "verifiers", "openenv", "harbor"],
        typer.Option(
            help="files: a pool; hub: a data set folder with a card; parquet, jsonl: the rows of the data set; "
            "gymnasium, verifiers, openenv: a package to install, named like DIR; harbor: a folder of tasks.",
        ),
    ],
    skill: Annotated[list[str] | None, typer.Option(metavar="SKILL", help="Only this skill; may be repeated.")] = None,
    win_rate: Annotated[
        str | None, typer.Option(metavar="A..B", help="Only unhinted win rates from A to B, such as 0.2..0.8.")
    ] = None,
    regret: Annotated[str | None, typer.Option(metavar="A..B", help="Only regrets from A to B.")] = None,
    novelty: Annotated[
        str | None,
        typer.Option(metavar="A..B", help="Novelty from A to B: 1 − the largest similarity to programs of the memory."),
    ] = None,
    audited: Annotated[bool, typer.Option("--audited", help="Only environments that passed their audit.")] = False,
    bare: Annotated[
        bool, typer.Option("--bare", help="In a package: run the programs without a sandbox, and without SPADE.")
    ] = False,
) -> None:
    """Write environments of a run with their lineage.

    Leaves out quarantined environments. A program that was admitted several times is exported once. The folder appears
    when it is complete.
    """
    from replay.inspect.pool import Filters
    from spade.app.commands.env.tables import write_tables
    from spade.app.pools.harbor import write_tasks
    from spade.app.pools.packages import write_package
    from spade.app.rundir import RunDir
    from spade.app.supervisor.pools import read_run_programs, write_pool

    found = RunDir(run).require()
    config = found.config()
    filters = Filters(
        known_skills(skill, config, found.path), _bounds("--win-rate", win_rate), _bounds("--regret", regret),
        _bounds("--novelty", novelty), audited,
    )  # fmt: skip
    programs = read_run_programs(found, filters=filters)
    if bare and format not in ("gymnasium", "verifiers", "openenv"):
        raise RunError(f"--bare: --format {format} writes no package; leave --bare out")
    name = as_line(found.path.name, 80)
    match format:
        case "files":
            count = write_pool(out, programs)
        case "hub" | "parquet" | "jsonl":
            count = write_tables(out, format, programs, config, name)
        case "gymnasium" | "verifiers" | "openenv":
            count = write_package(out, programs, config, name, format, bare)
        case "harbor":
            count, unsolved = write_tasks(out, programs, config, name)
            say(f"{unsolved} environments left out: their programs list no solution that wins")
    say(f"{out}: {count} environments of {found.path}")


def _bounds(option: str, text: str | None) -> "FigureBounds | None":
    """Parse the bounds of a figure, such as 0.2..0.8. Raises RunError if they are malformed."""
    from replay.inspect.pool import FigureBounds

    if text is None:
        return None
    match = _BOUNDS.fullmatch(text)
    if match is None or float(match[1]) > float(match[2]):
        raise RunError(f"{option} {as_line(text, 80)!r}: write two numbers like 0.2..0.8, the smaller one first")
    return FigureBounds(float(match[1]), float(match[2]))
