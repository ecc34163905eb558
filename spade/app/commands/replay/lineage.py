"""`spade replay lineage`: print the origin of a learner step, environment, group, play or design job."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from spade.app.commands.options import Json, RunArgument, check_id
from spade.app.printing import print_json, say
from spade.errors import RunError

if TYPE_CHECKING:
    from replay.inspect.lineage import DesignLine, Lineage, Runs
    from replay.ledger.records import PlayRecord


def lineage(
    run: RunArgument,
    id: Annotated[
        str,
        typer.Argument(metavar="ID", help="A learner step, environment, group, play or design job.", callback=check_id),
    ],
    json: Json = False,
) -> None:
    """Print the origin of something in a run.

    Names its groups, plays, environments, hints, documents, memory parents and weights.
    """
    from replay.inspect.lineage import Tracer
    from replay.store import open_reader
    from spade.app.rundir import RunDir

    found = RunDir(run).require()
    with open_reader(found.store) as store, store.pinned():
        traced = Tracer(store).trace(id)
    if traced is None:
        raise RunError(
            f"{found.path}: {id!r} not found; give a learner step (12), an environment (e000012), a group (e000012-0, "
            "r00001-optimization), a play (e000012-0u003) or a design job (j000012)"
        )
    if json:
        print_json(traced)
        return
    for line in _format_lines(traced):
        say(line)


def _format_lines(lineage: "Lineage") -> Iterator[str]:
    yield f"{lineage.kind} {lineage.id}" + (
        "" if lineage.version is None else f", trained at version {lineage.version}"
    )
    for group in lineage.groups:
        trained = "not trained" if group.step is None else f"trained in step {group.step}"
        members = " ".join(f"{member.trajectory} ({member.reward:g})" for member in group.members)
        yield f"  group {group.id}: {group.role}, {trained}: {members}"
    for play in lineage.plays:
        yield _play_line(play, lineage.versions.get(play.id, ()))
    for design in lineage.designs:
        yield from _format_design_lines(design, lineage.versions.get(design.trajectory, ()))
    for weights in lineage.weights:
        yield f"  version {weights.version}: weights {weights.digest} after step {weights.step}"


def _play_line(play: "PlayRecord", versions: "Runs") -> str:
    arm = "hinted" if play.hinted else "unhinted"
    outcome = f"finished, return {play.episode_return:g}, {_describe_runs(versions)}"
    return f"  play {play.id}: {arm}, instance {play.index}, {outcome if play.state == 'finished' else play.state}"


def _format_design_lines(design: "DesignLine", versions: "Runs") -> Iterator[str]:
    job, made = design.job, design.environment
    came_to = "no environment" if made is None else f"environment {made.id} {made.name}"
    yield f"  design {job.id}: {job.skill}, round {job.round}, {came_to}"
    came_from = "program of the pool" if job.program else "document"
    yield f"    {came_from} {design.document or 'none'}, memory parents {' '.join(design.parents) or 'none'}"
    if design.hint is not None:
        yield f"    hint: {' '.join(design.hint.split())}"
    if design.trajectory:
        yield f"    trajectory {design.trajectory}, {_describe_runs(versions)}"


def _describe_runs(versions: "Runs") -> str:
    """Describe how many tokens each version sampled."""
    counts: dict[int, int] = {}
    for version, count in versions:
        counts[version] = counts.get(version, 0) + count
    return (
        ", ".join(f"{count} tokens of version {version}" for version, count in counts.items())
        or "no sampled token is kept"
    )
