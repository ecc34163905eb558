"""`spade pool`: make, list, check, import and export pools of environment programs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spade.app.commands.options import Json, Recipe, RunArgument, Set
from spade.app.printing import print_json, say
from spade.errors import RunError
from spade.text import as_line

if TYPE_CHECKING:
    from spade.pools import PoolProgram

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="A pool: a folder of NAME.py, with NAME.hint and NAME.json.")
]
Out = Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="The folder to write.")]


def make(
    config: Annotated[str, typer.Argument(help="A recipe's name or a TOML file (`spade config ls`).")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="The folder to write [default: pools/CONFIG].")
    ] = None,
    count: Annotated[
        int, typer.Option(min=1, max=65_536, help="Programs of the finished pool; 400 rollouts need the default.")
    ] = 2_400,
    set_: Set = None,
) -> None:
    """Have the policy of a config write programs with hints.

    Each program has passed admission. Nothing is played or trained. If `endpoint.roles` has the designer, the
    endpoint's model writes the programs. The same command continues after a stop.
    """
    from spade.app.supervisor import pools
    from spade.pools import make_writing_config

    folder = out or pools.find_made_path(config)
    made = pools.make(folder, make_writing_config(config, set_ or ()), count, say)
    if made < count:
        say(f"{folder}: {made} of {count} programs; the same command goes on")
        raise typer.Exit(1)
    say(f"{folder}: {made} programs; `--set design.source=pool --set pool.source=folder:{folder}` plays them")


def ls(folder: Folder, json: Json = False) -> None:
    """List the programs of a pool.

    Exit code 1 if a program cannot be read.
    """
    from spade.pools import PoolProgram, list_names, read_program

    found: dict[str, PoolProgram | str] = {}
    for name in list_names(folder):
        try:
            found[name] = read_program(folder, name)
        except RunError as error:
            found[name] = str(error)
    if json:
        print_json([{"name": name, "error": each} if isinstance(each, str) else each for name, each in found.items()])
    else:
        say(f"{'name':<24} {'skill':<22} {'hint':<4} origin")
        for name, each in found.items():
            say(f"{name:<24} {each if isinstance(each, str) else _describe(each)}")
    if any(isinstance(each, str) for each in found.values()):
        raise typer.Exit(1)


def _describe(program: "PoolProgram") -> str:
    hint = "yes" if program.hint else "no"
    return f"{program.skill or '–':<22} {hint:<4} {as_line(program.origin, 200)}".rstrip()


def check(folder: Folder, json: Json = False, recipe: Recipe = None, set_: Set = None) -> None:
    """Check every program of a pool as admission does.

    Prints the faults of each program. Exit code 1 if any is rejected.
    """
    from spade.app.commands.env.programs import check_sources, read_or_reject
    from spade.pools import list_names, read_program

    def read(name: str) -> str:
        return read_program(folder, name).source

    sources = [(folder / f"{name}.py", read_or_reject(read, name)) for name in list_names(folder)]
    check_sources(sources, recipe, set_, json)


def import_pool(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="hub:OWNER/NAME, a Parquet or JSON Lines file, a folder of such files or of programs (*.py), "
            "LIBRARY:NAMES, such as gymnasium:FrozenLake-v1, or openenv:URL of a running server.",
        ),
    ],
    out: Out,
    recipe: Recipe = None,
    set_: Set = None,
) -> None:
    """Make a pool of other people's programs.

    Each program has to pass admission. A table counts the rejected ones by stage. The same command continues after a
    stop. The pool appears when it is complete.
    """
    from spade.app.pools.importing import import_programs
    from spade.config import load

    made = import_programs(source, out, load(recipe or "nano", tuple(set_ or ())), say)
    for row in made.rejections.rows():
        say(row)
    say(f"{out}: {made.admitted} of {made.programs} programs of {source}")


def export(
    run: RunArgument,
    out: Out,
    memory: Annotated[bool, typer.Option("--memory", help="Only environments of the run's memory.")] = False,
) -> None:
    """Make a pool of a run's environments.

    Leaves out quarantined environments. A program that was admitted several times is exported once.
    """
    from spade.app.rundir import RunDir
    from spade.app.supervisor.pools import read_run_programs, write_pool

    found = RunDir(run).require()
    count = write_pool(out, read_run_programs(found, memory))
    say(f"{out}: {count} programs, {'the memory' if memory else 'all environments'} of {found.path}")


def demonstrate(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Programs: folder:DIR, run:RUN or shipped:POOL.")],
    out: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write; must not exist.")],
    config: Annotated[str, typer.Option("--config", help="The recipe or TOML file that makes the prompts.")],
    prompts: Annotated[int, typer.Option(min=1, max=1_000, help="Prompts for each program.")] = 4,
    set_: Set = None,
) -> None:
    """Write the programs of a pool as answers to design prompts.

    Writes `train.jsonl`, which TRL's SFT reads. Programs must pass admission. Their hints become answers to prompts for
    a hint. Every second design prompt shows other programs to be varied.
    """
    from replay.inspect.training_examples import TRAIN, list_left_out, write_rows
    from spade.app.supervisor.demonstrations import Demonstrations
    from spade.app.supervisor.pools import read_named_programs
    from spade.config import load
    from spade.disk import write_whole

    maker = Demonstrations(load(config, tuple(set_ or ())))
    with write_whole(out) as part:
        part.mkdir(parents=True)
        write_rows(part / TRAIN, maker.rows(list(read_named_programs(source)), prompts))
        left = list_left_out(maker.left_out)
        if not maker.designs:
            raise RunError(f"{source}: no program answers a prompt of {config}; left out: {left or 'nothing'}")
    say(f"{out / TRAIN}: {maker.designs} designs and {maker.hints} hints{f'; left out: {left}' if left else ''}")
