"""`spade replay …`: look into a run's store, check it, take it apart, make it smaller, seed another with it."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import msgspec

from learner import checkpoint
from replay.inspect.contents import Contents, read_contents
from replay.inspect.export import TABLES, rows
from replay.inspect.import_memory import check_fit, import_memory, read_memory
from replay.inspect.lineage import DesignLine, Lineage, PlayLine, Runs, Tracer
from replay.inspect.verify import problems
from replay.ledger.records import Clock, Counters
from replay.service.journal import Journal
from replay.store import FORMAT, DamagedError, open_reader, open_store
from replay.store.compact import compact
from replay.store.load import open_run
from spade import manifest
from spade.app.printing import print_json, say
from spade.app.rundir import RunDir
from spade.codec import named
from spade.config import digest, load
from spade.disk import whole
from spade.errors import RunError, WeightsError, reason

MIB = 1 << 20
SHOWN = 100  # problems that `verify` names


def print_stats(path: Path, as_json: bool) -> None:
    """`spade replay stats`."""
    run = RunDir(path).require()
    with open_reader(run.store) as store, store.pinned():
        tables = store.extents()
        counters = store.get("meta", "counters", Counters) or Counters()
        clock = store.get("meta", "clock", Clock) or Clock()
    size = (run.store / "data.mdb").stat().st_size
    held = sum(extent.bytes for extent in tables.values())
    if as_json:
        figures = {"elapsed_s": clock.elapsed_s, **named(counters)}
        print_json({"format": FORMAT, "bytes": size, "held_bytes": held, "tables": tables, "counters": figures})
        return
    version = 0 if counters.newest is None else counters.newest.weights.version
    say(f"{run.path}: format {FORMAT}, up for {clock.elapsed_s:.0f} s, step {counters.taken_step}, version {version}")
    say(f"{'table':<14} {'records':>10} {'MiB':>10}")
    for table, extent in tables.items():
        say(f"{table:<14} {extent.records:>10} {extent.bytes / MIB:>10.2f}")
    say(f"{'file':<14} {'':>10} {size / MIB:>10.2f}  of which free {max(size - held, 0) / MIB:.2f}")


def verify_run(path: Path) -> bool:
    """`spade replay verify`: True where nothing is broken."""
    run = RunDir(path).require()
    found = Contents()
    try:
        with open_reader(run.store) as store:
            found = read_contents(store)
        lines = [*problems(found), *_file_problems(run, found)]
    except DamagedError as error:  # its records cannot be looked at
        lines = list(error.what)
    for line in lines[:SHOWN]:
        say(line)
    if len(lines) > SHOWN:
        say(f"… and {len(lines) - SHOWN} more")
    count = len(found.trajectories)
    say(f"{run.path}: {len(lines) or 'no'} problem{'' if len(lines) == 1 else 's'}, {count} trajectories looked at")
    return not lines


def _file_problems(run: RunDir, found: Contents) -> Iterator[str]:
    """What lies beside the store: the config, published weights and checkpoints, each against its digest."""
    if found.header is not None and digest(run.config()) != found.header.digest:
        yield f"{run.config_path}: means another run than the store"
    newest = found.counters.newest
    if newest is not None and not (run.weights / newest.weights.digest).is_dir():
        yield f"{run.weights / newest.weights.digest}: the newest policy, version {newest.weights.version}, is missing"
    for folder in sorted(path for path in run.weights.glob("[!.]*") if path.is_dir()):
        try:
            manifest.verify(folder, folder.name)
        except (OSError, WeightsError) as error:
            if folder.exists():  # else a live learner has just retired it
                yield str(error) if isinstance(error, WeightsError) else f"{folder}: is damaged ({reason(error)})"
    steps = [0]
    for step, folder in reversed(checkpoint.kept(run.checkpoints)):  # the oldest may go meanwhile
        try:
            held = checkpoint.verified(folder).step
        except (OSError, ValueError) as error:
            if folder.exists():
                yield f"{folder}: is damaged ({error})"
            continue
        steps.append(held)
        if held != step:
            yield f"{folder}: holds step {held}"
    if max(steps) < found.counters.retired_step:
        yield f"checkpoints: step {found.counters.retired_step} was acknowledged, the newest whole is {max(steps)}"


def print_lineage(path: Path, id: str, as_json: bool) -> None:
    """`spade replay lineage`."""
    run = RunDir(path).require()
    with open_reader(run.store) as store, store.pinned():
        lineage = Tracer(store).trace(id)
    if lineage is None:
        raise RunError(
            f"{run.path}: has no {id!r}; give a learner step (12), an environment (e000012), a group (e000012-0, "
            "r00001-optimization), a play (e000012-0u003) or a design job (j000012)"
        )
    if as_json:
        print_json(lineage)
        return
    for line in _lineage_lines(lineage):
        say(line)


def _lineage_lines(lineage: Lineage) -> Iterator[str]:
    yield f"{lineage.kind} {lineage.id}" + (
        "" if lineage.version is None else f", trained at version {lineage.version}"
    )
    for group in lineage.groups:
        trained = "not trained" if group.step is None else f"trained in step {group.step}"
        members = " ".join(f"{member.trajectory} ({member.reward:g})" for member in group.members)
        yield f"  group {group.id}: {group.role}, {trained}: {members}"
    yield from (_play_line(play) for play in lineage.plays)
    for design in lineage.designs:
        yield from _design_lines(design)
    for weights in lineage.weights:
        yield f"  version {weights.version}: weights {weights.digest} after step {weights.step}"


def _play_line(play: PlayLine) -> str:
    arm = "hinted" if play.hinted else "unhinted"
    outcome = f"finished, return {play.episode_return:g}, {_runs(play.versions)}"
    return f"  play {play.id}: {arm}, instance {play.instance}, {outcome if play.state == 'finished' else play.state}"


def _design_lines(design: DesignLine) -> Iterator[str]:
    came_to = "no environment" if design.environment is None else f"environment {design.environment} {design.name}"
    yield f"  design {design.job}: {design.skill}, round {design.round}, {came_to}"
    yield f"    document {design.document or 'none yet'}, memory parents {' '.join(design.parents) or 'none'}"
    if design.hint is not None:
        yield f"    hint: {' '.join(design.hint.split())}"
    if design.trajectory:
        yield f"    trajectory {design.trajectory}, {_runs(design.versions)}"


def _runs(versions: Runs) -> str:
    """Tokens by version, as few words as possible."""
    counts: dict[int, int] = {}
    for version, count in versions:
        counts[version] = counts.get(version, 0) + count
    return (
        ", ".join(f"{count} tokens of version {version}" for version, count in counts.items())
        or "no sampled token is kept"
    )


def export_store(path: Path, out: Path, as_parquet: bool) -> None:
    """`spade replay export`: a file for each table; the folder appears when it is complete."""
    run = RunDir(path).require()
    if as_parquet and find_spec("pyarrow") is None:
        raise RunError("--parquet needs pyarrow, which is not installed: pip install 'spade-rl[export]'")
    encoder = msgspec.json.Encoder()
    with whole(out) as part, open_reader(run.store) as store, store.pinned():
        part.mkdir(parents=True)
        for table, kind in TABLES.items():
            with (part / f"{table}.jsonl").open("wb") as file:
                for row in rows(store, table):
                    file.write(encoder.encode(row) + b"\n")
            if as_parquet:
                from spade.app.parquet import write_parquet

                write_parquet(part / f"{table}.parquet", kind, rows(store, table))
    say(f"{out}: {len(TABLES)} tables of {run.path}")


def compact_store(path: Path) -> None:
    """`spade replay compact`."""
    run = RunDir(path).require()
    before, after = compact(run.store)
    say(f"{run.path}: its store had {before / MIB:.2f} MiB and has {after / MIB:.2f}")


def import_run(path: Path, source: Path, recipe: str | None, overrides: tuple[str, ...]) -> None:
    """`spade replay import`: into a run that is stopped, or a new one under the old one's config if none is named."""
    run, old = RunDir(path), RunDir(source).require()
    if run.path == old.path:
        raise RunError(f"{run.path}: is both runs; give the one to seed and then the one to seed it from")
    config = load(recipe or str((run if run.exists else old).config_path), overrides)
    check_fit(config, old.config())
    memory = read_memory(old.store)
    with run.lock("replay"):
        run.create(config)
        with open_store(run.store, config.replay.durability) as store:
            opened = open_run(store, config)
            done = import_memory(store, opened.state, memory)
        Journal(run.path).event("import", opened.elapsed_s, opened.changed)
    others = f", {done.known} were known, {done.foreign} are of other skills" if done.known or done.foreign else ""
    say(f"{run.path}: {done.taken} environments of the memory of {old.path}{others}")
