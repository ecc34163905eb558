"""The command line. Nothing heavy is imported before a command needs it, so `spade --help` is instant."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from spade.errors import ConfigError, SpadeError
from spade.protocol import Role

app = typer.Typer(
    help="Self-play for language models: one policy designs executable environments and learns to play them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
actors = typer.Typer(help="Designers, agents, env-runners and engines.", no_args_is_help=True)
learner = typer.Typer(help="The learner.", no_args_is_help=True)
replay = typer.Typer(help="The replay service.", no_args_is_help=True)
config = typer.Typer(help="Recipes and settings.", no_args_is_help=True)
env = typer.Typer(help="Look at environments, check them, play them.", no_args_is_help=True)
model = typer.Typer(help="A run's model.", no_args_is_help=True)
nano = typer.Typer(help="The embedded nano model.", no_args_is_help=True)
for name, group in {
    "actors": actors, "learner": learner, "replay": replay, "config": config, "env": env, "model": model, "nano": nano,
}.items():  # fmt: skip
    app.add_typer(group, name=name)

Config = Annotated[str | None, typer.Argument(help="A recipe's name or a TOML file (`spade config ls`).")]
Run = Annotated[
    Path | None, typer.Option("--run", help="The run directory [default: runs/CONFIG]; an existing one is resumed.")
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting, e.g. learner.lr=1e-5.")
]
For = Annotated[str | None, typer.Option("--for", metavar="TIME", help="Stop after this long: 90s, 10m, 2h.")]
Headless = Annotated[
    bool, typer.Option("--headless", help="Print a line for each learner step instead of the live view.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def up(
    config: Config = None, run: Run = None, duration: For = None, headless: Headless = False, set_: Set = None
) -> None:
    """Start or resume a whole run here: every role, supervised, with the live view."""
    from spade.app.up import run_everything

    run_everything(config, run, tuple(set_ or ()), _seconds(duration), headless)


@actors.command("up")
def actors_up(
    connect: Annotated[str, typer.Option(metavar="ADDR", help="The run's replay service (`replay` in its run.json).")],
    config: Config = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", help="Where their logs go [default: a new directory under runs/]."),
    ] = None,
    designers: Annotated[int, typer.Option(min=0)] = 0,
    agents: Annotated[int, typer.Option(min=0)] = 0,
    runners: Annotated[int, typer.Option(min=0)] = 0,
    engines: Annotated[int, typer.Option(min=0)] = 0,
    set_: Set = None,
) -> None:
    """Add actors to a run that is up; Ctrl-C drains them."""
    from spade.app.up import run_actors

    counts: dict[Role, int] = {"designer": designers, "agent": agents, "env-runner": runners, "engine": engines}
    run_actors(config, connect, run, counts, tuple(set_ or ()))


@learner.command("up")
def learner_up(run: RunArgument) -> None:
    """Start the learner of a run whose replay service is up; Ctrl-C checkpoints and stops it."""
    from spade.app.up import run_learner

    run_learner(run)


@replay.command("up")
def replay_up(config: Config = None, run: Run = None, set_: Set = None) -> None:
    """Start or resume a run's replay service alone; learner and actors join it."""
    from spade.app.up import run_replay

    run_replay(config, run, tuple(set_ or ()))


@app.command()
def status(run: RunArgument, json: Json = False) -> None:
    """Print a run's status."""
    from spade.app.commands import print_status

    print_status(run, json)


@app.command()
def stop(run: RunArgument) -> None:
    """Drain a run and stop it."""
    from spade.app.commands import stop_run

    stop_run(run)


@app.command()
def top(
    run: RunArgument,
    svg: Annotated[Path | None, typer.Option(help="Draw the view once into this SVG file instead.")] = None,
) -> None:
    """Attach the live view to a run; Ctrl-C detaches."""
    from spade.app.commands import draw_top, show_top

    if svg is None:
        show_top(run)
    else:
        draw_top(run, svg)


@app.command()
def doctor() -> None:
    """Say what this machine can do, and what would make it better."""
    from spade.app.doctor import examine

    examine()


@config.command("ls")
def config_ls() -> None:
    """List the shipped recipes."""
    from spade.config import recipes

    for name, path in recipes().items():
        first = path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        typer.echo(f"{name:<12} {first}")


@config.command("show")
def config_show(
    config: Annotated[str, typer.Argument(help="A recipe, a TOML file or a run's config.toml.")] = "nano",
    set_: Set = None,
) -> None:
    """Print the resolved config."""
    from spade.config import dump, load

    typer.echo(dump(load(config, tuple(set_ or ()))), nl=False)


@config.command("check")
def config_check(config: Annotated[str, typer.Argument(help="A recipe or a TOML file.")], set_: Set = None) -> None:
    """Check a config and say what is wrong with it."""
    from spade.config import digest, load

    typer.echo(f"{config}: fine, meaning {digest(load(config, tuple(set_ or ())))[:12]}")


@env.command("ls")
def env_ls(
    run: RunArgument,
    rejected: Annotated[bool, typer.Option("--rejected", help="The rejected candidates instead.")] = False,
) -> None:
    """List a run's environments with their regret and win rates."""
    from spade.app.environments import list_environments

    list_environments(run, rejected)


@env.command("show")
def env_show(run: RunArgument, environment: Annotated[str, typer.Argument(help="An environment's id.")]) -> None:
    """Show one environment: program, hint, plays."""
    from spade.app.environments import show_environment

    show_environment(run, environment)


@env.command("check")
def env_check(files: Annotated[list[Path], typer.Argument(help="Environment programs.")], json: Json = False) -> None:
    """Check environment files as admission does and say what is wrong with them; exit code 1 if any fails."""
    from spade.app.environments import check_files

    raise typer.Exit(0 if check_files(files, json) else 1)


@env.command("play")
def env_play(
    source: Annotated[str, typer.Argument(metavar="FILE_OR_ID", help="An environment file, or with --run an id.")],
    run: Annotated[Path | None, typer.Option("--run", help="The run the id belongs to.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The instance.")] = 0,
    hint: Annotated[bool, typer.Option("--hint", help="Show the hint, where the run has one.")] = False,
) -> None:
    """Play an environment in the terminal."""
    from spade.app.environments import play

    play(source, run, seed, hint)


@model.command("export")
def model_export(
    run: RunArgument, out: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write it; must not exist.")]
) -> None:
    """Write a run's newest policy as a Hugging Face folder."""
    from spade.app.commands import export_model

    export_model(run, out)


@nano.command("build")
def nano_build(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write the checkpoint.")],
    seed: Annotated[int, typer.Option(help="Seed of everything drawn.")] = 0,
    minutes: Annotated[float, typer.Option(help="Length of the warm start: 60 steps each.")] = 18.0,
    report: Annotated[bool, typer.Option("--report", help="Measure the checkpoint afterwards.")] = False,
) -> None:
    """Make the nano model from nothing: tokenizer, demonstrations, warm start."""
    from spade.app.nano.build import build

    build(out, seed, minutes)
    if report:
        nano_report(str(out), seed)


@nano.command("report")
def nano_report(
    model: Annotated[str, typer.Argument(help="A checkpoint folder or a run's weights.")] = "nano",
    seed: Annotated[int, typer.Option(help="Seed of everything drawn.")] = 0,
    json: Json = False,
) -> None:
    """Measure a checkpoint on held-out programs: validity, novelty, win rates in both arms."""
    from spade.app.commands import print_nano_report

    print_nano_report(model, seed, json)


def _seconds(text: str | None) -> float | None:
    """Seconds of "90s", "10m", "2h" or "90"."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if match is None or float(match[1]) == 0:
        raise ConfigError(f"--for {text!r}: write a time like 90s, 10m or 2h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def main() -> None:
    """The `spade` command: a SpadeError is one line and exit code 1."""
    try:
        app()
    except* SpadeError as errors:
        for line in dict.fromkeys(_lines(errors)):
            print(f"spade: {line}", file=sys.stderr)
        sys.exit(1)
    except* KeyboardInterrupt:
        sys.exit(130)


def _lines(errors: BaseExceptionGroup[SpadeError]) -> Iterator[str]:
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _lines(error)
        else:
            yield str(error)


if __name__ == "__main__":
    main()
