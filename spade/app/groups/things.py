"""`spade env`, `spade config`, `spade model` and `spade nano`."""

from pathlib import Path
from typing import Annotated

import typer

from spade.app.commands.options import Json, Recipe, RunArgument, Seed, Set, an_id
from spade.app.printing import say, show

env = typer.Typer(help="Look at environments, check them, play them.", no_args_is_help=True)
config = typer.Typer(help="Recipes and settings.", no_args_is_help=True)
model = typer.Typer(help="A run's model.", no_args_is_help=True)
nano = typer.Typer(help="The embedded nano model.", no_args_is_help=True)


@config.command("ls")
def config_ls() -> None:
    """List the shipped recipes."""
    from spade.config import recipes

    for name, path in recipes().items():
        first = path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        say(f"{name:<12} {first}")


@config.command("show")
def config_show(
    config: Annotated[str, typer.Argument(help="A recipe, a TOML file or a run's config.toml.")] = "nano",
    set_: Set = None,
) -> None:
    """Print the resolved config."""
    from spade.config import dump, load

    show(dump(load(config, tuple(set_ or ()))).removesuffix("\n"))


@config.command("check")
def config_check(config: Annotated[str, typer.Argument(help="A recipe or a TOML file.")], set_: Set = None) -> None:
    """Check a config and what it names, and say what a run's processes would refuse.

    The corpus, evaluation programs, keys, a checkpoint folder and the room of a design's prompt.
    """
    from spade.app.commands.config import check_config

    say(check_config(config, tuple(set_ or ())))


@env.command("ls")
def env_ls(
    run: RunArgument,
    rejected: Annotated[bool, typer.Option("--rejected", help="The rejected candidates instead.")] = False,
) -> None:
    """List a run's environments with their regret and win rates."""
    from spade.app.commands.env import list_environments

    list_environments(run, rejected)


@env.command("show")
def env_show(
    run: RunArgument, environment: Annotated[str, typer.Argument(help="An environment's id.", callback=an_id)]
) -> None:
    """Show one environment: program, hint, plays."""
    from spade.app.commands.env import show_environment

    show_environment(run, environment)


@env.command("check")
def env_check(
    files: Annotated[list[Path], typer.Argument(help="Environment programs.")],
    json: Json = False,
    recipe: Recipe = None,
    set_: Set = None,
) -> None:
    """Check environment files as admission does.

    Says what is wrong with them; exit code 1 if any fails.
    """
    from spade.app.commands.env import check_files

    raise typer.Exit(0 if check_files(files, json, recipe, tuple(set_ or ())) else 1)


@env.command("play")
def env_play(
    source: Annotated[str, typer.Argument(metavar="FILE_OR_ID", help="An environment file, or with --run an id.")],
    run: Annotated[Path | None, typer.Option("--run", help="The run the id belongs to.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="The instance.")] = 0,
    hint: Annotated[bool, typer.Option("--hint", help="Show the hint, where the run has one.")] = False,
    recipe: Recipe = None,
    set_: Set = None,
) -> None:
    """Play an environment in the terminal."""
    from spade.app.commands.env import play

    play(source, run, seed, hint, recipe, tuple(set_ or ()))


@model.command("export")
def model_export(
    run: RunArgument, out: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write it; must not exist.")]
) -> None:
    """Write a run's newest policy as a Hugging Face folder."""
    from spade.app.commands.status import export_model

    export_model(run, out)


@nano.command("build")
def nano_build(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write the checkpoint.")],
    seed: Seed = 0,
    minutes: Annotated[float, typer.Option(min=0, max=10_000, help="Length of the warm start: 60 steps each.")] = 40.0,
    report: Annotated[bool, typer.Option("--report", help="Measure the checkpoint afterwards.")] = False,
) -> None:
    """Make the nano model: tokenizer, demonstrations, warm start."""
    from spade.app.nano.build import build

    build(out, seed, minutes)
    if report:
        nano_report(str(out), seed)


@nano.command("report")
def nano_report(
    model: Annotated[str, typer.Argument(help="A checkpoint folder, or a run directory.")] = "nano",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Measure a checkpoint on held-out programs.

    Validity, novelty, win rates in both arms.

    Of a run, its policy before the first learner step and the newest side by side (with --json the newest alone).
    """
    from spade.app.commands.status import print_nano_report

    print_nano_report(model, seed, json)
