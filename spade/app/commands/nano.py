"""`spade nano`: make and measure the embedded model."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from spade.app.commands.options import Json, Seed
from spade.app.nano import LAYERS
from spade.app.printing import complain, print_json, say, show


def build(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write; must not exist.")],
    seed: Seed = 0,
    minutes: Annotated[float, typer.Option(min=0, max=10_000, help="Minutes of the warm start, 60 steps each.")] = 40.0,
    world: Annotated[Literal["games", "tools"], typer.Option(help="The domain that the model learns.")] = "games",
    layers: Annotated[int, typer.Option(min=1, max=64, help="Layers of the model.")] = LAYERS,
    report: Annotated[bool, typer.Option("--report", help="Measure the checkpoint afterwards.")] = False,
) -> None:
    """Make the nano model: tokenizer, demonstrations, warm start."""
    from spade.disk import write_whole

    with write_whole(out) as part:
        say(f"{out}: building the nano model of {world}: tokenizer, practice in copying, {minutes:g} min of warm start")
        from spade.app.nano.build import build as make  # this imports torch, which takes seconds

        make(part, seed, minutes, world, layers)
    if report:
        measure(str(out), seed)


def measure(
    model: Annotated[str, typer.Argument(help="A checkpoint folder, or a run directory.")] = "nano",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Measure a checkpoint on held-out programs.

    Prints validity, novelty, and win rates with and without the hint. For a run, prints its policy before the first
    learner step and its newest policy side by side. With --json, prints only the newest policy.
    """
    from spade.app.rundir import RunDir, suggest_runs
    from spade.app.supervisor.kept import compute_sound_digest, find_newest_policy
    from spade.errors import ConfigError
    from spade.policy.model_folder import resolve
    from spade.text import as_line

    run = RunDir(Path(model))
    try:
        origin = resolve(run.config().model.path if run.exists else model)
    except ConfigError as error:
        raise ConfigError(f"{error}; {suggest_runs(model)}".rstrip("; ")) from None
    newest = origin
    if run.exists:
        policy = find_newest_policy(run)
        compute_sound_digest(policy)
        newest = policy.folder
    complain(f"measuring {as_line(model, 200)} on held-out programs; this takes minutes")  # not into the JSON
    # Import it only after the model was found, because it imports torch, which takes seconds.
    from spade.app.nano.report import compare_reports, report

    result = report(newest, origin, seed)
    if json:
        print_json(result)
    else:
        show(compare_reports(report(origin, origin, seed), result) if run.exists else str(result))
