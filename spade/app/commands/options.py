"""Options and arguments that several commands share."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spade.errors import ConfigError, RunError
from spade.text import as_line

if TYPE_CHECKING:
    from spade.config import Config as RunConfig
    from spade.config import Limits

LONGEST_ID = 200

Config = Annotated[str | None, typer.Argument(help="A recipe's name or a TOML file (`spade config ls`).")]
Run = Annotated[
    Path | None, typer.Option("--run", help="The run directory [default: runs/CONFIG]; an existing one is resumed.")
]
Repository = Annotated[str, typer.Argument(metavar="REPO", help="The repository, OWNER/NAME.")]
Public = Annotated[bool, typer.Option("--public", help="Make a new repository public; otherwise it is private.")]
Update = Annotated[bool, typer.Option("--update", help="Replace the files of a repository that is not empty.")]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]
LiveRun = Annotated[str, typer.Argument(metavar="RUN", help="A run directory, or the address of its replay service.")]
Keys = Annotated[
    Path | None, typer.Option("--keys", metavar="DIR", help="This host's key folder, if it is not the run's bus.keys.")
]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting, e.g. learner.lr=1e-4.")
]
Recipe = Annotated[
    str | None, typer.Option("--config", help="The settings: a recipe or a TOML file [default: the run's, else nano].")
]
From = Annotated[
    Path | None, typer.Option("--from", metavar="RUN", help="Begin a new run with the newest policy of RUN.")
]
Step = Annotated[
    str | None, typer.Option(metavar="N|best", help="With --from: the policy of this step, or of the best evaluation.")
]
Memory = Annotated[bool, typer.Option("--memory", help="With --from: take the environment memory, too.")]
For = Annotated[
    str | None,
    typer.Option("--for", metavar="TIME", help="Stop after this command kept the run up for this time: 90s, 10m, 2h."),
]
Steps = Annotated[int | None, typer.Option(min=1, help="Stop after exactly this many learner steps of this command.")]
Rollouts = Annotated[
    int | None,
    typer.Option(
        min=1, help="Stop after this many rollouts of this command, each a chunk of plays of every active environment."
    ),
]
Headless = Annotated[
    bool, typer.Option("--headless", help="Print a line for each learner step instead of the live view.")
]
Agents = Annotated[
    str | None,
    typer.Option(metavar="N|MIN..MAX", help="How many agents. With a range, their number follows the load."),
]
Count = Annotated[int, typer.Option(min=0, help="How many.")]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="ray", help="Place processes on the machines of this machine's Ray cluster."),
]
Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of all random draws.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def check_id(text: str) -> str:
    """Return an id as it was typed. Raises ConfigError if the text cannot be an id."""
    if not (text.isascii() and text.isprintable() and 0 < len(text) <= LONGEST_ID):
        raise ConfigError(
            f"{as_line(text, LONGEST_ID)!r} is not an id; an id is at most {LONGEST_ID} characters of ASCII"
        )
    return text


def known_skills(skills: list[str] | None, config: "RunConfig", run: Path) -> tuple[str, ...]:
    """Return the typed skills. Raises RunError if the run does not have one of them."""
    for skill in skills or ():
        if skill not in config.run.skills:
            known = ", ".join(config.run.skills)
            raise RunError(f"--skill {as_line(skill, 80)!r}: is not a skill of {run}, which has {known}")
    return tuple(skills or ())


def read_command_limits(steps: int | None, rollouts: int | None, duration: str | None) -> "Limits":
    """Return the typed limits of one command. Raises ConfigError if a limit is malformed or too large."""
    import msgspec

    from spade.config import Limits

    given = {"steps": steps or 0, "rollouts": rollouts or 0, "seconds": parse_seconds(duration)}
    try:
        return msgspec.convert(given, Limits)
    except msgspec.ValidationError as error:
        what, _, field = str(error).partition(" - at `$.")
        option = {"steps": "--steps", "rollouts": "--rollouts"}.get(field.removesuffix("`"), "--for")
        raise ConfigError(f"{option}: is too large, at most {what.rpartition(' ')[2]}") from None


def parse_seconds(text: str | None) -> float:
    """Return the seconds of "90s", "10m", "2h" or "90", and 0 for None. Raises ConfigError if the time is malformed."""
    if text is None:
        return 0.0
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smh]?)", text.strip())
    if match is None or float(match[1]) == 0:
        raise ConfigError(f"--for {text!r}: write a time like 90s, 10m or 2h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]
