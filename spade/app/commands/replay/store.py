"""`spade replay stats · export · compact · import`: measure, export, compact and seed a run's store."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import typer

from spade.app.commands.options import Json, RunArgument, Set
from spade.app.printing import print_json, say
from spade.errors import RunError

MIB = 1 << 20


def stats(run: RunArgument, json: Json = False) -> None:
    """Print the size of each table of a run's store."""
    from replay.ledger.records import Clock, RunCounters
    from replay.store import FORMAT, open_reader
    from spade.app.rundir import RunDir
    from spade.codec import convert_to_named

    found = RunDir(run).require()
    with open_reader(found.store) as store, store.pinned():
        tables = store.extents()
        counters = store.get("meta", "counters", RunCounters) or RunCounters()
        clock = store.get("meta", "clock", Clock) or Clock()
    size = (found.store / "data.mdb").stat().st_size
    held = sum(extent.bytes for extent in tables.values())
    if json:
        figures = {"elapsed_s": clock.elapsed_s, **convert_to_named(counters)}
        print_json({"format": FORMAT, "bytes": size, "held_bytes": held, "tables": tables, "counters": figures})
        return
    version = 0 if counters.newest is None else counters.newest.weights.version
    say(f"{found.path}: format {FORMAT}, up for {clock.elapsed_s:.0f} s, step {counters.taken_step}, version {version}")
    say(f"{'table':<14} {'records':>10} {'MiB':>10}")
    for table, extent in tables.items():
        say(f"{table:<14} {extent.records:>10} {extent.bytes / MIB:>10.2f}")
    say(f"{'file':<14} {'':>10} {size / MIB:>10.2f}  of which free {max(size - held, 0) / MIB:.2f}")


def export(
    run: RunArgument,
    out: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write; must not exist.")],
    parquet: Annotated[bool, typer.Option("--parquet", help="Add Parquet files (needs the extra `export`).")] = False,
    format: Annotated[
        Literal["tables", "messages"],
        typer.Option(help="Every table, or won plays and admitted designs as conversations to fine-tune on."),
    ] = "tables",
    role: Annotated[
        Literal["agent", "designer"] | None, typer.Option(help="With messages: only plays, or only designs.")
    ] = None,
    skill: Annotated[
        list[str] | None, typer.Option(metavar="SKILL", help="With messages: only this skill; may be repeated.")
    ] = None,
    least_return: Annotated[
        float | None,
        typer.Option(
            "--return", metavar="R", help="With messages: plays that returned at least R [default: won ones]."
        ),
    ] = None,
) -> None:
    """Write a run's store, or its good answers, as JSONL.

    Writes a file for each table, or `train.jsonl`, which TRL's SFT reads. The folder appears when it is complete.
    """
    import msgspec

    from replay.inspect.export import TABLES, read_rows
    from replay.store import open_reader
    from spade.app.commands.replay.messages import export_messages
    from spade.app.rundir import RunDir
    from spade.disk import write_whole
    from spade.extras import describe_installing
    from spade.progress import follow

    found = RunDir(run).require()
    if format == "messages":
        if parquet:
            raise RunError("--parquet: --format messages writes only JSONL; leave --parquet out")
        export_messages(found, out, role, skill, least_return)
        return
    if role or skill or least_return is not None:
        raise RunError("--role, --skill and --return choose conversations; add --format messages")
    if parquet and find_spec("pyarrow") is None:
        raise RunError(f"--parquet needs pyarrow, which is not installed: {describe_installing('export')}")
    encoder = msgspec.json.Encoder()
    with write_whole(out) as part, open_reader(found.store) as store, store.pinned():
        part.mkdir(parents=True)
        extents = store.extents()
        for table, kind in TABLES.items():
            with (part / f"{table}.jsonl").open("wb") as file:
                for row in follow(read_rows(store, table), table, extents[table].records):
                    file.write(encoder.encode(row) + b"\n")
            if parquet:
                from spade.app.commands.replay.parquet import write_parquet

                rows = follow(read_rows(store, table), f"{table} as Parquet", extents[table].records)
                write_parquet(part / f"{table}.parquet", kind, rows)
    say(f"{out}: {len(TABLES)} tables of {found.path}")


def compact(run: RunArgument) -> None:
    """Return the free space of a stopped run's store to the disk."""
    from replay.store.compact import compact
    from spade.app.rundir import RunDir
    from spade.progress import show

    found = RunDir(run).require()
    with show("compacting", None, lambda: 0):
        before, after = compact(found.store)
    say(f"{found.path}: its store had {before / MIB:.2f} MiB and has {after / MIB:.2f}")


def import_run(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run to seed: a new directory, or a stopped run.")],
    old: Annotated[Path, typer.Argument(metavar="OLD_RUN", help="The run whose environment memory is taken.")],
    config: Annotated[str | None, typer.Argument(help="The new run's config [default: its own, or OLD_RUN's].")] = None,
    set_: Set = None,
) -> None:
    """Seed a run's environment memory from an old run."""
    from replay.inspect.import_memory import check_fit
    from spade.app.rundir import RunDir
    from spade.app.supervisor.beginning import seed_memory
    from spade.config import load

    found, source = RunDir(run), RunDir(old).require()
    if found.path == source.path:
        raise RunError(f"{found.path}: RUN and OLD_RUN are the same; give the run to seed, then the old run")
    resolved = load(config or str((found if found.exists else source).config_path), tuple(set_ or ()))
    check_fit(resolved, source.config())
    with found.lock("replay"):
        found.create(resolved)
        done = seed_memory(found, resolved, source)
    others = f", {done.known} were known, {done.foreign} are of other skills" if done.known or done.foreign else ""
    say(f"{found.path}: {done.taken} environments of the memory of {source.path}{others}")
