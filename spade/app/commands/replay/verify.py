"""`spade replay verify`: check every invariant of a store, and the digest of every file beside the store."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from spade.app.commands.options import Json, RunArgument
from spade.app.printing import print_json, say
from spade.disk import list_folder
from spade.errors import WeightsError, format_placed
from spade.progress import follow

if TYPE_CHECKING:
    from replay.inspect.contents import StoreContents
    from spade.app.rundir import RunDir

SHOWN = 100  # problems that are printed


def verify(run: RunArgument, json: Json = False) -> None:
    """Check every invariant and every digest of a run.

    Lists the faults. Exit code 1 if there is a fault.
    """
    from replay.inspect.contents import StoreContents, read_contents
    from replay.inspect.verify import find_problems
    from replay.store import DamagedError, open_reader
    from spade.app.rundir import RunDir

    opened = RunDir(run).require()
    found = StoreContents()
    try:
        with open_reader(opened.store) as store:
            found = read_contents(store)
        lines = [*find_problems(found), *_find_file_problems(opened, found)]
    except DamagedError as error:  # the records of the store cannot be read
        lines = list(error.what)
    count = len(found.trajectories)
    if json:
        print_json({"problems": lines, "trajectories": count})
    else:
        for line in lines[:SHOWN]:
            say(line)
        if len(lines) > SHOWN:
            say(f"… and {len(lines) - SHOWN} more")
        problems = f"{len(lines) or 'no'} problem{'' if len(lines) == 1 else 's'}"
        say(f"{opened.path}: {problems}, {count} trajectories looked at")
    if lines:
        raise typer.Exit(1)


def _find_file_problems(run: "RunDir", found: "StoreContents") -> Iterator[str]:
    """Yield the faults of the files beside the store: config, weights, kept policies and checkpoints."""
    from learner import checkpoint
    from spade.config import compute_digest
    from spade.policy import manifest

    if found.header is not None and compute_digest(run.config()) != found.header.digest:
        yield f"{run.config_path}: has the settings of another run than the store"
    newest = found.counters.newest
    if newest is not None and not (run.weights / newest.weights.digest).is_dir():
        yield f"{run.weights / newest.weights.digest}: the newest policy, version {newest.weights.version}, is missing"
    weights = [run.weights / name for name in list_folder(run.weights) if not name.startswith(".")]
    for folder in follow(list(filter(Path.is_dir, weights)), "published weights"):
        try:
            manifest.verify(folder, folder.name)
        except (OSError, WeightsError) as error:
            if folder.exists():  # otherwise a live learner has just retired the weights
                yield _tell(folder, error)
    yield from _find_policy_problems(run, found)
    steps = [0]
    kept = checkpoint.list_kept(run.checkpoints)[::-1]  # a live learner may delete the oldest checkpoint meanwhile
    for step, folder in follow(kept, "checkpoints"):
        try:
            held = checkpoint.verify_checkpoint(folder).step
        except (OSError, ValueError) as error:
            if folder.exists():
                yield _tell(folder, error)
            if isinstance(error, PermissionError):
                steps.append(step)  # a checkpoint that we may not read may be whole
            continue
        steps.append(held)
        if held != step:
            yield f"{folder}: holds step {held}"
    if max(steps) < found.counters.retired_step:
        reported = found.counters.retired_step
        yield f"checkpoints: the learner wrote one of step {reported}, but the newest whole one is of step {max(steps)}"


def _tell(folder: Path, error: OSError | ValueError | WeightsError) -> str:
    """Return the line about a folder that could not be verified. A file that we may not read is not called damaged."""
    if isinstance(error, WeightsError):
        return str(error)
    what = "cannot be checked" if isinstance(error, PermissionError) else "is damaged"
    return f"{folder}: {what} ({format_placed(error)})"


def _find_policy_problems(run: "RunDir", found: "StoreContents") -> Iterator[str]:
    """Yield the faults of the policies that the run keeps: damage, or weights not published after their step."""
    from spade.policy import kept, manifest

    published: dict[int, set[str]] = {}
    for each in found.publications.values():
        published.setdefault(each.weights.step, set()).add(each.weights.digest)
    for step, folder in follow(kept.list_by_step(run.path / kept.FOLDER), "kept policies"):
        try:
            digest = manifest.verify_parameters(folder)
        except (OSError, WeightsError) as error:
            if folder.exists():  # otherwise a live learner is replacing the folder
                yield _tell(folder, error)
            continue
        if digest not in published.get(step, {digest}):
            yield f"{folder}: holds the weights {digest}, which were not published after step {step}"
