"""`spade model`: import a model for runs, and export the policies of a run."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spade.app.commands.options import Json, Public, Repository, RunArgument, Update
from spade.app.printing import print_json, say
from spade.errors import RunError, WeightsError
from spade.text import as_line, quote

if TYPE_CHECKING:
    from spade.app.rundir import RunDir
    from spade.app.supervisor.kept import KeptPolicy
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
        typer.Option(help="Number format of the result [default: the source's; bfloat16 for a GGUF file]."),
    ] = None,
) -> None:
    """Import a foreign model as a checkpoint folder, and try each use.

    The folder appears when it is complete. A line with a cross names a use that will not work, and the reason.
    """
    from spade.app.models.convert import convert
    from spade.app.models.notes import examine
    from spade.app.models.sources import open_source
    from spade.disk import write_whole
    from spade.progress import follow

    with write_whole(out) as part:
        say(f"reading {source}")
        with open_source(source) as found:
            convert(found, part, dtype)
        for finding in follow(examine(part), "examining"):
            say(f"{'✗' if finding.fault else '✓'} {finding.name}: {finding.text}")
    say(f"{out}: `spade config check CONFIG --set model.path={quote(out)}` checks a run with it")


def export(
    run: RunArgument,
    out: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write; must not exist.")],
    gguf: Annotated[bool, typer.Option("--gguf", help="Write the GGUF file DIR/model.gguf instead.")] = False,
) -> None:
    """Write the newest policy as a Hugging Face folder or a GGUF file.

    The folder appears when it is complete and its weights have the digest that the run recorded. The run may be up.
    """
    from spade.app.rundir import RunDir
    from spade.app.supervisor.kept import find_newest_policy

    found = RunDir(run).require()
    policy = find_newest_policy(found)
    note = _copy(policy, out, found.path.name if gguf else None)
    say(f"{out}: the newest policy of {found.path}, after step {policy.step}")
    if note:
        say(f"{out}: {note}")


def push(
    run: RunArgument,
    repository: Repository,
    licence: Annotated[
        str, typer.Option("--licence", metavar="ID", help="The licence of the base model [default: as its card says].")
    ] = "",
    public: Public = False,
    update: Update = False,
) -> None:
    """Publish the newest policy of a run on the Hugging Face hub.

    The card has the recipe, the data, the curves, the evaluations and the limits. A new repository is private without
    --public. The run may be up.
    """
    from tempfile import TemporaryDirectory

    import trio

    from spade.app.models.push import check_name, push_folder
    from spade.app.report.card import write_model_card
    from spade.app.report.collect import collect
    from spade.app.rundir import RunDir
    from spade.app.screen.observe import try_read_status
    from spade.app.supervisor.kept import compute_sound_digest, find_newest_policy

    check_name(repository)
    found = RunDir(run).require()
    policy = find_newest_policy(found)
    with TemporaryDirectory(prefix="spade-model-") as place:
        folder = Path(place) / "model"
        _copy(policy, folder)
        facts = collect(found, as_line(found.path.name, 80), trio.run(try_read_status, found), "", most=0)
        write_model_card(folder, facts, found, policy.step, compute_sound_digest(policy), licence)
        address = push_folder(
            folder, repository, "model", public=public, update=update, summary=f"The policy after step {policy.step}"
        )
    say(f"{address}: the newest policy of {found.path}, after step {policy.step}")


def export_best(
    run: RunArgument,
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="DIR", help="The folder to write.")] = None,
    json: Json = False,
) -> None:
    """Write the policy of the best evaluation as a Hugging Face folder.

    The best policy has the highest held-out win rate. If several are equal, the latest is the best. Without -o, only
    prints which policy it is.
    """
    from spade.app.rundir import RunDir
    from spade.app.supervisor.kept import KeptPolicy

    found = RunDir(run).require()
    folder, best = find_best_policy(found)
    if out is not None:
        _copy(KeptPolicy(best.step, "best", folder, (best.digest,)), out)
    if json:
        print_json({"folder": str(out or folder), "best": best})
    else:
        say(f"{folder}: {best}" if out is None else f"{out}: the best policy of {found.path}, {best}")


def _copy(policy: "KeptPolicy", out: Path, gguf: str | None = None) -> str:
    """Copy a policy to `out`. Return a note for the user, or "".

    If `gguf` is given, write `out`/model.gguf instead, with `gguf` as the model's name. If a file of the policy or of
    the copy is damaged, raises RunError and leaves nothing behind.
    """
    from spade.app.models.gguf_export import write_gguf
    from spade.app.supervisor.kept import check_policy
    from spade.disk import hold, refuse_links, write_whole
    from spade.policy import manifest
    from spade.progress import measure_size, show_writing

    with (
        hold(policy.folder / manifest.PARAMETERS),
        write_whole(out) as part,
        show_writing(f"writing {out}", part, measure_size(policy.folder)),
    ):
        refuse_links(policy.folder)
        try:
            digest = check_policy(policy)
            if gguf is not None:
                part.mkdir()
                return write_gguf(policy.folder, part / "model.gguf", gguf)
            shutil.copytree(policy.folder, part)
            manifest.verify_parameters(part, digest)
        except WeightsError as error:
            raise RunError(
                f"{error}; nothing was written: restore it, or export another policy (`spade model best`)"
            ) from None
    return ""


def find_best_policy(run: "RunDir") -> "tuple[Path, Best]":
    """Return the folder and figures of the policy with the best evaluation. Raises RunError if there is none yet."""
    from spade.policy.best import FOLDER, find

    kept = find(run.path / FOLDER)
    if kept is None:
        raise RunError(
            f"{run.path}: no evaluation has finished yet, so there is no best policy; evaluation.suite names the suite"
        )
    return kept
