"""List, show, check and play environments."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spade.app.commands.options import Json, Recipe, RunArgument, Set, an_id
from spade.app.printing import print_json, say
from spade.errors import RunError, reason
from spade.text import line, visible

if TYPE_CHECKING:
    from replay.inspect.environments import EnvironmentDetail
    from spade.app.screen.console import Screen
    from spade.config import Config
    from spade.protocol import Faulted, Form, Observed, Verdict

NAME_CHARACTERS = 100


def ls(
    run: RunArgument,
    rejected: Annotated[bool, typer.Option("--rejected", help="List the rejected candidates instead.")] = False,
) -> None:
    """List a run's environments with regret and win rates.

    The newest is last.
    """
    from replay.inspect.environments import read_environments, read_rejected
    from spade.app.rundir import RunDir

    found = RunDir(run).require()
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
        row += f" {line(env.variant)}" if env.variant else ""
        say(f"{env.id:<8} {line(env.name, NAME_CHARACTERS):<34} {env.skill:<22} {env.state:<11}   {row}")


def show(
    run: RunArgument, environment: Annotated[str, typer.Argument(help="An environment's id.", callback=an_id)]
) -> None:
    """Show one environment: program, hint, win rates, reward, audit."""
    from rich.syntax import Syntax

    from replay.inspect.environments import read_environment
    from spade.app.rundir import RunDir
    from spade.app.screen.console import Screen

    env = read_environment(RunDir(run).require().store, environment)
    if env is None:
        raise RunError(f"no environment {environment!r} in {run}; `spade env ls {run}` lists them")
    console = Screen()
    console.tell(
        (env.name, "bold"), f"  {env.id}  {env.skill}  {env.state}  ", (f"from {env.document or 'no document'}", "dim")
    )
    # Lines are not wrapped, so that a program redirected to a file stays valid.
    console.print(Syntax(visible(env.source), "python", background_color="default"), soft_wrap=True)
    if env.hint:
        console.tell(("hint", "cyan"), f"  {env.hint}")
    unknown = "not scored yet" if env.state == "active" else "not measured"
    for name, value in (
        ("win rate unhinted", env.win_rate_unhinted),
        ("win rate hinted", env.win_rate_hinted),
        ("regret", env.regret),
        ("designer reward", env.reward),
    ):
        console.tell((f"{name:<18}", "dim"), f" {unknown if value is None else f'{value:.3f}'}")
    for name, told in _told(env):
        console.tell((f"{name:<18}", "dim"), f" {told}")
    if env.audit:
        console.tell((f"{'audit':<18}", "dim"), f" {env.audit}")
    if env.repairs:
        console.tell((f"{'repaired':<18}", "dim"), f" {', '.join(env.repairs)}")


def _told(env: "EnvironmentDetail") -> list[tuple[str, str]]:
    """All that is known of the program, by name: its measures, and what it was asked to be."""
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
    )
    return [(name, str(value)) for name, value in known if value is not None]


def check(
    files: Annotated[list[Path], typer.Argument(help="Environment programs.")],
    json: Json = False,
    recipe: Recipe = None,
    set_: Set = None,
) -> None:
    """Check environment files as admission does.

    Prints what is wrong with each. Exit code 1 if any is rejected.
    """
    check_sources([(file, _source(file)) for file in files], recipe, set_, json)


def check_sources(
    files: "list[tuple[Path, str | Verdict]]", recipe: str | None, set_: list[str] | None, json: bool = False
) -> None:
    """Check programs, or tell the verdict on those that cannot be read. Exits with 1 if any is rejected."""
    import trio

    from spade.codec import named
    from spade.config import load

    config = load(recipe or "nano", tuple(set_ or ()))
    verdicts = trio.run(_check, files, config)
    if json:
        print_json([{"file": visible(str(file)), **named(verdict)} for file, verdict in verdicts])
    else:
        _tell_verdicts(verdicts)
    if not all(verdict.passed for _, verdict in verdicts):
        raise typer.Exit(1)


def _tell_verdicts(verdicts: "list[tuple[Path, Verdict]]") -> None:
    from spade.app.screen.console import Screen

    console = Screen()
    for file, verdict in verdicts:
        word = ("admitted", "green") if verdict.passed else ("rejected", "red")
        console.tell(word, f"  {file}  {verdict.name}".rstrip())
        for stage in verdict.stages:
            mark = ("ok", "green") if stage.passed else ("no", "red")
            console.tell("  ", mark, f" {stage.name:<14} {stage.reason}".rstrip())
        if verdict.repairs:
            console.tell(f"     {'repaired':<14} {', '.join(verdict.repairs)}")


def _source(file: Path) -> "str | Verdict":
    """The program in a file. An unreadable file gets a verdict instead, so that the other files are still checked."""
    from spade.protocol import Stage, Verdict

    try:
        return _read(file)
    except RunError as error:
        return Verdict(False, (Stage("read", False, str(error)),))


async def _check(files: "list[tuple[Path, str | Verdict]]", config: "Config") -> "list[tuple[Path, Verdict]]":
    from actors.environments.admission import validate
    from actors.sandbox import open_sandbox
    from spade.protocol import Verdict
    from spade.seeds import derive, new_secret

    # Secret seeds: a program must not recognise admission.
    secret = new_secret()
    async with open_sandbox(config.sandbox) as sandbox:
        verdicts = []
        for number, (file, source) in enumerate(files):
            if isinstance(source, Verdict):
                verdicts.append((file, source))
                continue
            seed = derive(secret, "admission", number)
            verdicts.append((file, await validate(sandbox, source, seed, config.sandbox, config.play)))
        return verdicts


def play(
    source: Annotated[str, typer.Argument(metavar="FILE_OR_ID", help="An environment file, or with --run an id.")],
    run: Annotated[Path | None, typer.Option("--run", help="The run of the id.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of the instance.")] = 0,
    hint: Annotated[bool, typer.Option("--hint", help="Show the hint of an environment of a run.")] = False,
    recipe: Recipe = None,
    set_: Set = None,
) -> None:
    """Play an environment in the terminal."""
    import trio

    from spade.app.rundir import RunDir
    from spade.app.screen.console import Screen
    from spade.config import load

    own = str(RunDir(run).require().config_path) if run is not None else "nano"
    config = load(recipe or own, tuple(set_ or ()))
    program, its_hint, reads = _find(source, run)
    console = Screen()
    if hint:
        console.tell(("hint", "cyan"), f" {its_hint or 'it has none'}")
    try:
        trio.run(_play, program, reads, seed, config, console)
    except* (KeyboardInterrupt, EOFError):
        console.tell(("left", "dim"))


def _find(name: str, run: Path | None) -> "tuple[str, str, Form | None]":
    """Source, hint and action form of an environment in a file or a run; None: unknown."""
    if run is None:
        if not os.path.exists(name):
            raise RunError(f"{name}: no such file; an id needs --run RUN")
        return _read(Path(name)), "", None
    from replay.inspect.environments import read_environment
    from spade.app.rundir import RunDir

    env = read_environment(RunDir(run).require().store, an_id(name))
    if env is None:
        raise RunError(f"no environment {name!r} in {run}; `spade env ls {run}` lists them")
    return env.source, env.hint, env.reads


def _read(file: Path) -> str:
    from spade.disk import read

    try:
        return read(file).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{file}: cannot be read as an environment program ({reason(error)})") from None


async def _play(source: str, reads: "Form | None", seed: int, config: "Config", console: "Screen") -> None:
    import trio

    from actors.environments.forms import form_of
    from actors.sandbox import open_sandbox
    from actors.text.actions import action_typed, sent
    from actors.text.conversation import converse
    from spade.protocol import Faulted, Observed
    from spade.returns import won
    from spade.seeds import derive, new_secret

    async def step(turn: int, action: str) -> "Observed | Faulted":
        answer = await sandbox.step("play", turn, action)
        if isinstance(answer, Observed):
            _show(console, answer)
            console.tell((f"reward {answer.reward:g}", "dim"))
        return answer

    async with open_sandbox(config.sandbox) as sandbox:
        form = reads or await form_of(sandbox, source, derive(new_secret(), "form"), config.sandbox, config.play)

        async def ask(_: Observed) -> str:
            typed = await trio.to_thread.run_sync(input, "> ", abandon_on_cancel=True)
            return sent(action_typed(typed), form)

        first = await sandbox.open("play", source, seed, config.play.max_turns)
        if isinstance(first, Observed):
            _show(console, first)
        played = await converse(first, config.play.max_turns, step, ask)
    turns, last = len(played.actions), played.answers[-1]
    if isinstance(last, Faulted):
        raise RunError(f"the environment failed in turn {turns}: {last.kind}: {last.detail}")
    outcome = ("won", "green") if won(played.episode_return, config.play.win_return) else ("lost", "red")
    console.tell(outcome, f" in {turns} turns")


def _show(console: "Screen", answer: "Observed") -> None:
    console.print(visible(answer.observation))
