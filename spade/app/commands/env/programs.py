"""List, show and check environments."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from spade.app.commands.options import Json, Recipe, RunArgument, Set, check_id
from spade.app.printing import print_json, say
from spade.errors import RunError, format_reason
from spade.text import as_line, make_visible, quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from replay.inspect.environments import EnvironmentDetail
    from spade.config import Config, DomainName
    from spade.protocol import Verdict

    Checked = tuple[Path, DomainName | None, Verdict]
    """A file, its program's domain (None if unknown), and the verdict."""

NAME_CHARACTERS = 100

_Place = TypeVar("_Place")


def ls(
    run: RunArgument,
    rejected: Annotated[bool, typer.Option("--rejected", help="List the rejected candidates instead.")] = False,
    json: Json = False,
) -> None:
    """List a run's environments with regret and win rates.

    The newest is last.
    """
    from replay.inspect.environments import read_environments, read_rejected
    from spade.app.rundir import RunDir

    found = RunDir(run).require()
    if json:
        print_json(read_rejected(found.store) if rejected else read_environments(found.store))
        return
    if rejected:
        say(f"{'job':<8} {'attempt':>7}  {'stage':<10} reason")
        for reject in read_rejected(found.store):
            why = " ".join(reject.reason.split())
            say(f"{reject.job:<8} {reject.attempt:>7}  {reject.stage:<10} {why}")
        return
    figures = "unhinted hinted regret reward  lines hidden levels"
    environments = read_environments(found.store)
    if any(env.variant for env in environments):
        figures += " variant"
    say(f"{'id':<8} {'name':<34} {'skill':<22} {'state':<11} {figures}")
    for env in environments:
        numbers = (env.win_rate_unhinted, env.win_rate_hinted, env.regret, env.reward)
        row = " ".join(f"{'–' if number is None else format(number, '.2f'):>6}" for number in numbers)
        counts = (env.measures.lines, env.measures.hidden_variables, env.reward_levels or None)
        row += "".join(f" {'–' if count is None else count:>6}" for count in counts)
        row += f" {as_line(env.variant)}" if env.variant else ""
        say(f"{env.id:<8} {as_line(env.name, NAME_CHARACTERS):<34} {env.skill:<22} {env.state:<11}   {row}")


def show(
    run: RunArgument,
    id: Annotated[str, typer.Argument(metavar="ID", help="An environment, or a play.", callback=check_id)],
    json: Json = False,
) -> None:
    """Show one environment, or one play turn by turn.

    For an environment, prints the program, hint, win rates, reward and audit, and up to two of its plays. For a play,
    prints the model's messages and the program's answers. With tools, also prints the calls, their results, the changes
    of the state, and which criteria are met.

    With --json, prints a play's record, the seed of its instance, and its tokens.
    """
    from rich.syntax import Syntax

    from replay.inspect.export import convert_row
    from replay.inspect.plays import read_examples, read_play
    from replay.ledger.keys import is_play
    from spade.app.commands.env.transcript import show_play
    from spade.app.rundir import RunDir
    from spade.app.screen.console import Screen

    if json and is_play(id):
        kept = read_play(RunDir(run).require().store, id)
        print_json({"play": kept.record, "seed": kept.seed, "tokens": convert_row(kept.trajectory)})
        return
    if json:
        print_json(find_environment(run, id))
        return
    if is_play(id):
        show_play(run, id)
        return
    env, console = find_environment(run, id), Screen()
    console.tell(
        (env.name, "bold"), f"  {env.id}  {env.skill}  {env.state}  ", (f"from {env.document or 'no document'}", "dim")
    )
    # Do not wrap lines, so that a program redirected to a file stays valid.
    console.print(Syntax(make_visible(env.source), "python", background_color="default"), soft_wrap=True)
    if env.hint:
        console.tell(("hint", "cyan"), f"  {env.hint}")
    examples = read_examples(RunDir(run).store, id)
    plays = [
        ("a play", f"{play.id}, return {play.episode_return:g} in {play.turns} turns")
        for play in (*examples[:1], *examples[1:][-1:])
    ]
    for name, text in (*_list_figures(env), *_list_facts(env), *plays):
        console.tell((f"{name:<18}", "dim"), f" {text}")


def find_environment(run: Path, id: str) -> "EnvironmentDetail":
    """Return an environment of a run by its id. Raises RunError if the id is unknown."""
    from replay.inspect.environments import read_environment
    from spade.app.rundir import RunDir

    env = read_environment(RunDir(run).require().store, id)
    if env is None:
        raise RunError(f"no environment {id!r} in {run}; `spade env ls {quote(run)}` lists them")
    return env


def _list_figures(env: "EnvironmentDetail") -> list[tuple[str, str]]:
    """Return the measured figures of an environment as (name, text)."""
    unknown = "not scored yet" if env.state == "active" else "not measured"
    figures = (
        ("win rate unhinted", env.win_rate_unhinted),
        ("win rate hinted", env.win_rate_hinted),
        ("regret", env.regret),
        ("designer reward", env.reward),
    )
    return [(name, unknown if value is None else f"{value:.3f}") for name, value in figures]


def _list_facts(env: "EnvironmentDetail") -> list[tuple[str, str]]:
    """Return the known facts about a program as (name, text): its measures, its setting and variant, its repairs."""
    measures = env.measures
    reveals = {True: "reveals the method", False: "does not reveal the method", None: None}[measures.reveals]
    known = (
        ("lines", measures.lines),
        ("hidden variables", measures.hidden_variables),
        ("reward levels", env.reward_levels or None),
        ("first observation", reveals),
        ("similarity", None if measures.similarity is None else f"{measures.similarity:.3f}"),
        ("setting", env.setting or None),
        ("variant", env.variant or None),
        ("tools", measures.tools),
        ("conditions", None if measures.conditions is None else f"{measures.conditions:.1f} a criterion"),
        ("guarded failure", {True: "yes", False: "no", None: None}[measures.guarded]),
        ("audit", env.audit or None),
        ("repaired", ", ".join(env.repairs) or None),
    )
    return [(name, str(value)) for name, value in known if value is not None]


def check(
    files: Annotated[list[Path], typer.Argument(help="Environment programs.")],
    json: Json = False,
    recipe: Recipe = None,
    set_: Set = None,
) -> None:
    """Check environment files as admission does.

    Prints the faults of each file. Exit code 1 if any is rejected.
    """
    check_sources([(file, read_or_reject(read_program, file)) for file in files], recipe, set_, json)


def check_sources(
    files: "list[tuple[Path, str | Verdict]]", recipe: str | None, set_: list[str] | None, json: bool = False
) -> None:
    """Check programs and print each verdict immediately. With `json`, print all verdicts at the end.

    `files` has each file with its program, or with a verdict if the file is unreadable. Exits with 1 on a rejection.
    """
    import sys

    import trio

    from spade.codec import convert_to_named
    from spade.config import load

    config = load(recipe or "nano", tuple(set_ or ()))
    verdicts: list[Checked] = []

    def take(checked: "Checked") -> None:
        verdicts.append(checked)
        if not json:
            _tell_verdict(checked)
            sys.stdout.flush()

    trio.run(_check, files, config, take)
    if json:
        print_json(
            [
                {"file": make_visible(str(file)), "domain": its, **convert_to_named(verdict)}
                for file, its, verdict in verdicts
            ]
        )
    if not all(verdict.passed for _, _, verdict in verdicts):
        raise typer.Exit(1)


def _tell_verdict(checked: "Checked") -> None:
    from spade.app.screen.console import open_screen

    console = open_screen()
    file, domain, verdict = checked
    word = ("admitted", "green") if verdict.passed else ("rejected", "red")
    console.tell(word, f"  {file}  {verdict.name}".rstrip(), (f"  {domain or ''}".rstrip(), "dim"))
    for stage in verdict.stages:
        mark = ("ok", "green") if stage.passed else ("no", "red")
        console.tell("  ", mark, f" {stage.name:<14} {stage.reason}".rstrip())
    if verdict.repairs:
        console.tell(f"     {'repaired':<14} {', '.join(verdict.repairs)}")
    if verdict.suspects:
        words = ", ".join(verdict.suspects)
        console.tell(f"     {'suspects':<14} {words}: the solution uses these words before any text states them")


def read_or_reject(read: "Callable[[_Place], str]", place: _Place) -> "str | Verdict":
    """Read the program at a place. Returns a rejection if it is unreadable, so that other programs are checked."""
    from spade.protocol import Stage, Verdict

    try:
        return read(place)
    except RunError as error:
        return Verdict(False, (Stage("read", False, str(error)),))


async def _check(
    files: "list[tuple[Path, str | Verdict]]", config: "Config", take: "Callable[[Checked], None]"
) -> None:
    """Check the programs one after the other as admission does. Call `take` with each verdict."""
    from actors.sandbox import open_sandbox
    from spade.app.pools.admission import judge
    from spade.progress import follow
    from spade.protocol import Verdict

    async with open_sandbox(config.sandbox, fixed_hashes=True) as sandbox:
        for file, source in follow(files, "checking programs"):
            if isinstance(source, Verdict):
                take((file, None, source))
                continue
            domain, verdict = await judge(sandbox, source, config)
            take((file, domain, verdict))


def read_program(file: Path) -> str:
    from spade.disk import read

    try:
        return read(file).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{file}: cannot be read as an environment program ({format_reason(error)})") from None
