"""`spade env`: list, show, check and play environments."""

from pathlib import Path

import trio
from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax

from spade.app.printing import print_json
from spade.app.rundir import RunDir
from spade.codec import named
from spade.config import Config, load
from spade.errors import RunError, reason
from spade.protocol import Faulted, Observed, Stage, Verdict
from spade.returns import won
from spade.seeds import derive, new_secret


def list_environments(path: Path, rejected: bool) -> None:
    """`spade env ls`: newest last, a line each."""
    from replay.reader import read_environments, read_rejected

    run = RunDir(path).require()
    if rejected:
        print(f"{'job':<8} {'attempt':>7}  {'stage':<10} reason")
        for reject in read_rejected(run.store):
            why = visible(" ".join(reject.reason.split()))
            print(f"{reject.job:<8} {reject.attempt:>7}  {reject.stage:<10} {why}")
        return
    print(f"{'id':<8} {'name':<34} {'skill':<22} {'state':<11} unhinted hinted regret reward")
    for env in read_environments(run.store):
        numbers = (env.win_rate_unhinted, env.win_rate_hinted, env.regret, env.reward)
        row = " ".join(f"{'–' if number is None else format(number, '.2f'):>6}" for number in numbers)
        print(f"{env.id:<8} {env.name:<34} {env.skill:<22} {env.state:<11}   {row}")


def show_environment(path: Path, environment: str) -> None:
    """`spade env show`."""
    from replay.reader import read_environment

    env = read_environment(RunDir(path).require().store, environment)
    if env is None:
        raise RunError(f"no environment {environment!r} in {path}; `spade env ls {path}` lists them")
    console = Console()
    console.print(f"[bold]{escape(env.name)}[/]  {env.id}  {env.skill}  {env.state}  [dim]from {env.document}[/]")
    # Lines stay whole: what is printed is the program, also where it goes to a file.
    console.print(Syntax(visible(env.source), "python", background_color="default"), soft_wrap=True)
    console.print(f"[cyan]hint[/]  {escape(visible(env.hint))}")
    for name, value in (
        ("win rate unhinted", env.win_rate_unhinted),
        ("win rate hinted", env.win_rate_hinted),
        ("regret", env.regret),
        ("designer reward", env.reward),
    ):
        console.print(f"[dim]{name:<18}[/] {'not scored yet' if value is None else f'{value:.3f}'}")
    if env.audit:
        console.print(f"[dim]{'audit':<18}[/] {escape(visible(env.audit))}")


def check_files(files: list[Path], as_json: bool, recipe: str | None, overrides: tuple[str, ...]) -> bool:
    """`spade env check`: True where every file passes admission."""
    config = load(recipe or "nano", overrides)
    verdicts = trio.run(_check, [(file, _source(file)) for file in files], config)
    if as_json:
        print_json([{"file": str(file), **named(verdict)} for file, verdict in verdicts])
        return all(verdict.passed for _, verdict in verdicts)
    console = Console()
    for file, verdict in verdicts:
        word = "[green]admitted[/]" if verdict.passed else "[red]rejected[/]"
        console.print(f"{word}  {escape(str(file))}  {escape(verdict.name)}".rstrip(), highlight=False, soft_wrap=True)
        for stage in verdict.stages:
            mark = "[green]ok[/]" if stage.passed else "[red]no[/]"
            told = f"{stage.name:<14} {escape(visible(stage.reason))}".rstrip()
            console.print(f"  {mark} {told}", highlight=False, soft_wrap=True)
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
        for file, source in files:
            if isinstance(source, Verdict):
                verdicts.append((file, source))
                continue
            seed = derive(secret, "admission", str(file))
            verdicts.append((file, await validate(sandbox, source, seed, config.sandbox, config.play)))
        return verdicts


def play(
    name: str, run: Path | None, seed: int, show_hint: bool, recipe: str | None, overrides: tuple[str, ...]
) -> None:
    """`spade env play`; the rules are the run's unless a recipe is named."""
    own = str(RunDir(run).require().config_path) if run is not None else "nano"
    config = load(recipe or own, overrides)
    source, hint = _find(name, run)
    console = Console()
    if show_hint:
        console.print(f"[cyan]hint[/] {escape(visible(hint) or 'a file has none')}")
    try:
        trio.run(_play, source, seed, config, console)
    except* (KeyboardInterrupt, EOFError):
        console.print("[dim]left[/]")


def visible(text: str) -> str:
    """What a program wrote, without what would steer the terminal: control characters as Python escapes them."""
    return "".join(char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text)


def _find(name: str, run: Path | None) -> tuple[str, str]:
    """Source and hint of an environment in a file or a run."""
    if run is None:
        if not Path(name).exists():
            raise RunError(f"{name}: no such file; an id needs --run RUN")
        return _read(Path(name)), ""
    from replay.reader import read_environment

    env = read_environment(RunDir(run).require().store, name)
    if env is None:
        raise RunError(f"no environment {name!r} in {run}; `spade env ls {run}` lists them")
    return env.source, env.hint


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{file}: cannot be read as an environment program ({reason(error)})") from None


async def _play(source: str, seed: int, config: Config, console: Console) -> None:
    from actors.actions import boxed
    from actors.rollout import episode_return
    from actors.sandbox import open_sandbox

    async with open_sandbox(config.sandbox) as sandbox:
        answer = await sandbox.open("play", source, seed, config.play.max_turns)
        turn = 0
        while True:
            match answer:
                case Faulted(kind=kind, detail=detail):
                    raise RunError(f"the environment failed in turn {turn}: {kind}: {visible(detail)}")
                case Observed(observation=observation, terminated=terminated, truncated=truncated, reward=reward):
                    console.print(escape(visible(observation)), highlight=False)
                    if turn:
                        console.print(f"[dim]reward {reward:g}[/]")
                    if terminated or truncated or turn == config.play.max_turns:
                        ended = episode_return([reward], terminated)
                        outcome = "[green]won[/]" if won(ended, config.play.win_return) else "[red]lost[/]"
                        console.print(outcome, f"in {turn} turns")
                        return
            turn += 1
            typed = await trio.to_thread.run_sync(input, "> ", abandon_on_cancel=True)
            action = boxed(typed)
            answer = await sandbox.step("play", turn, typed.strip() if action is None else action)
