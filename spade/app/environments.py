"""`spade env`: list, show, check and play environments."""

import os
from pathlib import Path

import trio
from rich.syntax import Syntax

from spade.app.options import an_id
from spade.app.printing import print_json, say
from spade.app.rundir import RunDir
from spade.app.screen import Screen
from spade.codec import named
from spade.config import Config, load
from spade.disk import read
from spade.errors import RunError, reason
from spade.protocol import Faulted, Observed, Stage, Verdict
from spade.returns import won
from spade.seeds import derive, new_secret
from spade.text import line, visible

NAME_CHARACTERS = 100


def list_environments(path: Path, rejected: bool) -> None:
    """`spade env ls`: newest last, a line each."""
    from replay.reader import read_environments, read_rejected

    run = RunDir(path).require()
    if rejected:
        say(f"{'job':<8} {'attempt':>7}  {'stage':<10} reason")
        for reject in read_rejected(run.store):
            why = " ".join(reject.reason.split())
            say(f"{reject.job:<8} {reject.attempt:>7}  {reject.stage:<10} {why}")
        return
    say(f"{'id':<8} {'name':<34} {'skill':<22} {'state':<11} unhinted hinted regret reward")
    for env in read_environments(run.store):
        numbers = (env.win_rate_unhinted, env.win_rate_hinted, env.regret, env.reward)
        row = " ".join(f"{'–' if number is None else format(number, '.2f'):>6}" for number in numbers)
        say(f"{env.id:<8} {line(env.name, NAME_CHARACTERS):<34} {env.skill:<22} {env.state:<11}   {row}")


def show_environment(path: Path, environment: str) -> None:
    """`spade env show`."""
    from replay.reader import read_environment

    env = read_environment(RunDir(path).require().store, environment)
    if env is None:
        raise RunError(f"no environment {environment!r} in {path}; `spade env ls {path}` lists them")
    console = Screen()
    console.tell((env.name, "bold"), f"  {env.id}  {env.skill}  {env.state}  ", (f"from {env.document}", "dim"))
    # Lines stay whole: what is printed is the program, also where it goes to a file.
    console.print(Syntax(visible(env.source), "python", background_color="default"), soft_wrap=True)
    console.tell(("hint", "cyan"), f"  {env.hint}")
    for name, value in (
        ("win rate unhinted", env.win_rate_unhinted),
        ("win rate hinted", env.win_rate_hinted),
        ("regret", env.regret),
        ("designer reward", env.reward),
    ):
        console.tell((f"{name:<18}", "dim"), f" {'not scored yet' if value is None else f'{value:.3f}'}")
    if env.audit:
        console.tell((f"{'audit':<18}", "dim"), f" {env.audit}")
    if env.repairs:
        console.tell((f"{'repaired':<18}", "dim"), f" {', '.join(env.repairs)}")


def check_files(files: list[Path], as_json: bool, recipe: str | None, overrides: tuple[str, ...]) -> bool:
    """`spade env check`: True where every file passes admission."""
    config = load(recipe or "nano", overrides)
    verdicts = trio.run(_check, [(file, _source(file)) for file in files], config)
    if as_json:
        print_json([{"file": visible(str(file)), **named(verdict)} for file, verdict in verdicts])
        return all(verdict.passed for _, verdict in verdicts)
    console = Screen()
    for file, verdict in verdicts:
        word = ("admitted", "green") if verdict.passed else ("rejected", "red")
        console.tell(word, f"  {file}  {verdict.name}".rstrip())
        for stage in verdict.stages:
            mark = ("ok", "green") if stage.passed else ("no", "red")
            console.tell("  ", mark, f" {stage.name:<14} {stage.reason}".rstrip())
        if verdict.repairs:
            console.tell(f"     {'repaired':<14} {', '.join(verdict.repairs)}")
    return all(verdict.passed for _, verdict in verdicts)


def _source(file: Path) -> str | Verdict:
    """The program in a file, or the verdict on a file that cannot be read: the others are checked all the same."""
    try:
        return _read(file)
    except RunError as error:
        return Verdict(False, (Stage("read", False, str(error)),))


async def _check(files: list[tuple[Path, str | Verdict]], config: Config) -> list[tuple[Path, Verdict]]:
    from actors.sandbox import open_sandbox
    from actors.validation import validate

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
    name: str, run: Path | None, seed: int, show_hint: bool, recipe: str | None, overrides: tuple[str, ...]
) -> None:
    """`spade env play`; the rules are the run's unless a recipe is named."""
    own = str(RunDir(run).require().config_path) if run is not None else "nano"
    config = load(recipe or own, overrides)
    source, hint = _find(name, run)
    console = Screen()
    if show_hint:
        console.tell(("hint", "cyan"), f" {hint or 'a file has none'}")
    try:
        trio.run(_play, source, seed, config, console)
    except* (KeyboardInterrupt, EOFError):
        console.tell(("left", "dim"))


def _find(name: str, run: Path | None) -> tuple[str, str]:
    """Source and hint of an environment in a file or a run."""
    if run is None:
        if not os.path.exists(name):
            raise RunError(f"{name}: no such file; an id needs --run RUN")
        return _read(Path(name)), ""
    from replay.reader import read_environment

    env = read_environment(RunDir(run).require().store, an_id(name))
    if env is None:
        raise RunError(f"no environment {name!r} in {run}; `spade env ls {run}` lists them")
    return env.source, env.hint


def _read(file: Path) -> str:
    try:
        return read(file).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{file}: cannot be read as an environment program ({reason(error)})") from None


async def _play(source: str, seed: int, config: Config, console: Screen) -> None:
    from actors.actions import boxed
    from actors.rollout import episode_return
    from actors.sandbox import open_sandbox

    async with open_sandbox(config.sandbox) as sandbox:
        answer = await sandbox.open("play", source, seed, config.play.max_turns)
        turn = 0
        while True:
            match answer:
                case Faulted(kind=kind, detail=detail):
                    raise RunError(f"the environment failed in turn {turn}: {kind}: {detail}")
                case Observed(observation=observation, terminated=terminated, truncated=truncated, reward=reward):
                    console.print(visible(observation))
                    if turn:
                        console.tell((f"reward {reward:g}", "dim"))
                    if terminated or truncated or turn == config.play.max_turns:
                        ended = episode_return([reward], terminated)
                        outcome = ("won", "green") if won(ended, config.play.win_return) else ("lost", "red")
                        console.tell(outcome, f" in {turn} turns")
                        return
            turn += 1
            typed = await trio.to_thread.run_sync(input, "> ", abandon_on_cancel=True)
            action = boxed(typed)
            answer = await sandbox.step("play", turn, typed.strip() if action is None else action)
