"""`spade env play`: let a person play a program in the terminal."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spade.app.commands.env.programs import find_environment, read_program
from spade.app.commands.options import Recipe, Set, check_id
from spade.errors import RunError

if TYPE_CHECKING:
    from actors.text.conversation import Move, Player
    from spade.app.screen.console import Screen
    from spade.config import Config
    from spade.protocol import Form, Observed


def play(
    source: Annotated[str, typer.Argument(metavar="FILE_OR_ID", help="An environment file, or with --run an id.")],
    run: Annotated[Path | None, typer.Option("--run", help="The run that has the environment.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of the instance.")] = 0,
    hint: Annotated[bool, typer.Option("--hint", help="Show the hint of an environment of a run.")] = False,
    state: Annotated[
        bool, typer.Option("--state", help="Show how each message changes the state of a program with tools.")
    ] = False,
    recipe: Recipe = None,
    set_: Set = None,
) -> None:
    """Play an environment in the terminal.

    For a program with tools, type calls such as find(status="new"). Type `done` to submit.
    """
    import trio

    from spade.app.rundir import RunDir
    from spade.app.screen.console import Screen
    from spade.config import load

    own = str(RunDir(run).require().config_path) if run is not None else "nano"
    config = load(recipe or own, tuple(set_ or ()))
    program, its_hint, reads = _find(source, run)
    console = Screen()
    if hint:
        console.tell(("hint", "cyan"), f" {its_hint or 'none'}")
    try:
        trio.run(_play, program, reads, seed, config, console, state)
    except* KeyboardInterrupt:
        console.tell(("left", "dim"))
        raise
    except* EOFError:
        console.tell(("left", "dim"))


def _find(name: str, run: Path | None) -> "tuple[str, str, Form | None]":
    """Return source, hint ("" if it has none) and action form (None if unknown) of an environment."""
    if run is None:
        if not os.path.exists(name):
            raise RunError(f"{name}: no such file; an id needs --run RUN")
        return read_program(Path(name)), "", None
    env = find_environment(run, check_id(name))
    return env.source, env.hint, env.reads


async def _play(source: str, reads: "Form | None", seed: int, config: "Config", console: "Screen", state: bool) -> None:
    from actors.environments.forms import find_form
    from actors.sandbox import open_sandbox
    from actors.text.conversation import play_conversation
    from spade.app.commands.env.watched import PrintedPlay, count_finished_turns
    from spade.protocol import Observed
    from spade.returns import is_won
    from spade.seeds import derive, draw_secret

    async with open_sandbox(config.sandbox) as sandbox:
        watched = PrintedPlay(sandbox, console, state)
        first = await watched.open(source, seed, config.play.max_turns)
        player: Player[Move] = _leave_play
        if isinstance(first, Observed) and watched.tools:
            player = _make_calling_player(first, config.tools.calls_per_turn, console)
        elif isinstance(first, Observed):
            if state:
                raise RunError("--state: only programs with tools have a state to show")
            key = derive(draw_secret(), "form")
            player = _make_acting_player(reads or await find_form(sandbox, source, key, config.sandbox, config.play))
        played = await play_conversation(first, config.play.max_turns, watched.step, player)
    turns = count_finished_turns(played)
    outcome = ("won", "green") if is_won(played.episode_return, config.play.win_return) else ("lost", "red")
    console.tell(outcome, f" in {turns} turns")


async def _read_typed() -> str:
    import trio

    return await trio.to_thread.run_sync(input, "> ", abandon_on_cancel=True)


async def _leave_play(_: "Observed") -> "Move | None":
    return None


def _make_acting_player(form: "Form") -> "Player[Move]":
    """Return a player that asks the person at the terminal for the actions of a game."""
    from actors.text.actions import format_action, read_typed_action
    from actors.text.conversation import Move

    async def ask(_: "Observed") -> "Move | None":
        return Move(format_action(read_typed_action(await _read_typed()), form))

    return ask


def _make_calling_player(first: "Observed", most: int, console: "Screen") -> "Player[Move]":
    """Return a player that asks the person for calls, at most `most` per message. A malformed line costs no turn."""
    from actors.text.conversation import Move
    from actors.text.toolcalls.notation import parse_typed
    from spade.app.screen.tool_use import list_offered
    from spade.protocol import ToolCall

    arguments = list_offered(first)

    async def ask(_: "Observed") -> "Move | None":
        while True:
            try:
                calls, answer = parse_typed(await _read_typed(), arguments)
                if len(calls) > most:
                    raise ValueError(f"a message may have at most {most} calls, these are {len(calls)}")
            except ValueError as error:
                console.tell(("not sent", "red"), f"  {error}")
            else:
                return Move(answer, tuple(ToolCall(call.name, call.arguments) for call in calls))

    return ask
