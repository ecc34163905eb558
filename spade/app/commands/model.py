"""`spade model`: import a model for runs, and export the policies of a run."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spade.app.commands.options import RunArgument
from spade.app.printing import say
from spade.errors import RunError, WeightsError

if TYPE_CHECKING:
    from spade.app.rundir import RunDir
    from spade.policy.best import Best


def import_model(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="A GGUF file, pip:PACKAGE that holds one, a checkpoint folder, or a name of the hub."
        ),
    ],
    out: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write; must not exist.")],
    dtype: Annotated[
        Literal["float32", "bfloat16"] | None,
        typer.Option(help="Number format of the result [default: its own; bfloat16 of a GGUF file]."),
    ] = None,
) -> None:
    """Import a foreign model as a checkpoint folder, and try each use.

    The folder appears when it is complete. A line with a cross names a use that will not work, and the reason.
    """
    from spade.app.models.convert import convert
    from spade.app.models.findings import examine
    from spade.app.models.sources import open_source
    from spade.disk import write_whole

    with write_whole(out) as part:
        say(f"reading {source}")
        with open_source(source) as found:
            convert(found, part, dtype)
        for finding in examine(part):
            say(f"{'✗' if finding.fault else '✓'} {finding.name}: {finding.text}")
    say(f"{out}: `spade config check CONFIG --set model.path={out}` checks a run of it")


def export(
    run: RunArgument, out: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write; must not exist.")]
) -> None:
    """Write the newest policy of a run as a Hugging Face folder.

    The folder appears when it is complete and its weights have the digest that the run recorded. The run may be up.
    """
    from spade.app.rundir import RunDir

    found = RunDir(run).require()
    folder = find_newest_weights(found)
    _copy(folder, folder.name, out)
    say(f"{out}: the newest policy of {found.path}")


def export_best(
    run: RunArgument,
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="DIR", help="The folder to write.")] = None,
) -> None:
    """Write the policy with the best evaluation as a Hugging Face folder.

    The best policy has the highest held-out win rate. If several are equal, the latest is the best. Without -o, only
    prints which policy it is.
    """
    from spade.app.rundir import RunDir

    found = RunDir(run).require()
    folder, best = find_best_policy(found)
    if out is None:
        say(f"{folder}: {best}")
        return
    _copy(folder, best.digest, out)
    say(f"{out}: the best policy of {found.path}, {best}")


def _copy(policy: Path, digest: str, out: Path) -> None:
    """Copy a policy and check the digest of the copy. If it differs, raises RunError and leaves nothing behind."""
    from spade.disk import hold, write_whole
    from spade.policy import manifest

    with write_whole(out) as part, hold(policy / manifest.PARAMETERS):
        shutil.copytree(policy, part)
        try:
            manifest.verify_parameters(part, digest)
        except WeightsError:
            raise RunError(
                f"{manifest.make_changed_error(policy, digest)}; nothing was written: bring it back, or "
                f"export another policy "
                "(`spade model best`)"
            ) from None


def find_best_policy(run: "RunDir") -> "tuple[Path, Best]":
    """Return the folder and figures of the policy with the best evaluation. Raises RunError if none has finished."""
    from spade.policy.best import FOLDER, find

    kept = find(run.path / FOLDER)
    if kept is None:
        raise RunError(
            f"{run.path}: no evaluation is over yet, so no policy is the best; evaluation.suite sets what is played"
        )
    return kept


def find_newest_weights(run: "RunDir") -> Path:
    """Return the folder of the newest published policy. Raises RunError if none was published or the folder is gone."""
    from replay.inspect.environments import find_newest_weights as read

    weights = read(run.store)
    if weights is None:
        raise RunError(f"{run.path}: no policy was published yet")
    # Not weights.path: the run directory may have moved since the publication.
    folder = run.weights / weights.digest
    if not folder.is_dir():
        raise RunError(f"{folder}: the newest policy, version {weights.version}, is missing")
    return folder
