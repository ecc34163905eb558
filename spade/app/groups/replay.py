"""`spade replay` and `spade keys`."""

from pathlib import Path
from typing import Annotated

import typer

from spade.app.commands.options import Config, Json, Run, RunArgument, Set, an_id

replay = typer.Typer(help="The replay service.", no_args_is_help=True)
keys = typer.Typer(help="Keys for hosts that join over a network.", no_args_is_help=True)


@replay.command("up")
def replay_up(config: Config = None, run: Run = None, set_: Set = None) -> None:
    """Start or resume a run's replay service alone."""
    from spade.app.supervisor.up import run_replay

    run_replay(config, run, tuple(set_ or ()))


@replay.command("stats")
def replay_stats(run: RunArgument, json: Json = False) -> None:
    """Print what a run's store holds, table by table."""
    from spade.app.commands.replay.store import print_stats

    print_stats(run, json)


@replay.command("verify")
def replay_verify(run: RunArgument) -> None:
    """Check every invariant and every digest of a run.

    Names what is broken; exit code 1 if anything is.
    """
    from spade.app.commands.replay.store import verify_run

    raise typer.Exit(0 if verify_run(run) else 1)


@replay.command("lineage")
def replay_lineage(
    run: RunArgument,
    id: Annotated[
        str,
        typer.Argument(metavar="ID", help="A learner step, environment, group, play or design job.", callback=an_id),
    ],
    json: Json = False,
) -> None:
    """Say where something in a run comes from.

    From which groups, plays, environments, hints, documents, memory parents and weights.
    """
    from spade.app.commands.replay.store import print_lineage

    print_lineage(run, id, json)


@replay.command("batch")
def replay_batch(
    run: RunArgument,
    step: Annotated[int, typer.Argument(metavar="STEP", min=1, max=2**31 - 1, help="A learner step.")],
    out: Annotated[Path | None, typer.Option(help="Write the step's tensors into this safetensors file.")] = None,
    json: Json = False,
) -> None:
    """Make a learner step again, and compare its loss.

    Exit code 1 if it differs. It needs a checkpoint of at most learner.checkpoint_every steps before, or the initial
    policy.
    """
    from spade.app.commands.replay.remake import print_batch

    raise typer.Exit(0 if print_batch(run, step, out, json) else 1)


@replay.command("export")
def replay_export(
    run: RunArgument,
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write it; must not exist.")],
    parquet: Annotated[bool, typer.Option("--parquet", help="Parquet files too (needs the extra `export`).")] = False,
) -> None:
    """Write a run's store as a JSONL file for each table."""
    from spade.app.commands.replay.store import export_store

    export_store(run, out, parquet)


@replay.command("compact")
def replay_compact(run: RunArgument) -> None:
    """Make a stopped run's store as small as what it holds."""
    from spade.app.commands.replay.store import compact_store

    compact_store(run)


@replay.command("import")
def replay_import(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run to seed: a new directory, or a stopped run.")],
    old: Annotated[Path, typer.Argument(metavar="OLD_RUN", help="The run whose environment memory is taken.")],
    config: Annotated[str | None, typer.Argument(help="The new run's config [default: its own, or OLD_RUN's].")] = None,
    set_: Set = None,
) -> None:
    """Seed a run's environment memory from an old run."""
    from spade.app.commands.replay.store import import_run

    import_run(run, old, config, tuple(set_ or ()))


@keys.command("new")
def keys_new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The run's key folder; made if it is not there.")],
    hosts: Annotated[list[str] | None, typer.Argument(metavar="[HOST]...", help="Make a key folder for each.")] = None,
    roles: Annotated[
        str | None,
        typer.Option(metavar="ROLE,…", help="What these hosts may be [default: all that `spade actors up` starts]."),
    ] = None,
) -> None:
    """Make the keys of a run and of its hosts, and let them all in.

    A host that may start actors may supervise them too; the run's own host may be anything.
    """
    from spade.app.commands.keys import new_keys

    new_keys(folder, hosts or [], roles)


@keys.command("ls")
def keys_ls(folder: Annotated[Path, typer.Argument(metavar="DIR", help="A key folder.")]) -> None:
    """List whom the services of a key folder let in, and as what."""
    from spade.app.commands.keys import list_keys

    list_keys(folder)
