"""Print the transcript of a play: the model's recorded messages, and the program's answers from a second play."""

from pathlib import Path
from typing import TYPE_CHECKING

from spade.errors import RunError
from spade.text import make_visible

if TYPE_CHECKING:
    from actors.text.conversation import Conversation, Move
    from replay.inspect.plays import KeptPlay
    from spade.app.screen.console import Screen
    from spade.config import Config
    from spade.protocol import Observed


def show_play(run: Path, id: str) -> None:
    """Print a play turn by turn. Plays the program again in the sandbox with the model's recorded messages."""
    import trio

    from replay.inspect.plays import read_play
    from spade.app.rundir import RunDir
    from spade.app.screen.console import Screen

    found = RunDir(run).require()
    kept = read_play(found.store, id)
    record, console = kept.record, Screen()
    arm = "hinted" if record.hinted else "unhinted"
    console.tell((record.id, "bold"), f"  {kept.environment.name}  {arm}, instance {record.index}")
    if record.hinted:
        console.tell(("hint", "cyan"), f"  {kept.source.hint}")
    played = trio.run(_play_again, kept, found.config(), console)
    outcome = "ended" if record.terminated else "cut off"
    console.tell(f"{outcome} in {record.turns} turns, return {record.episode_return:g}")
    again = played.outcome == "terminated", played.episode_return
    if again != (record.terminated, record.episode_return):
        console.tell(("it ended differently", "red"), f" when it was played again: {_describe_ending(played)}")


def _describe_ending(played: "Conversation[Move]") -> str:
    from spade.protocol import Faulted

    last = played.answers[-1]
    return f"{last.kind}: {last.detail}" if isinstance(last, Faulted) else f"return {played.episode_return:g}"


def _list_sampled(kept: "KeptPlay") -> list[list[int]]:
    """Return the tokens that the model sampled in each turn. Raises RunError if the turns cannot be told apart."""
    from spade.codec import split_runs

    turns = [ids for sampled, ids in split_runs(kept.trajectory) if sampled]
    if len(turns) != kept.record.turns:
        raise RunError(
            f"the play {kept.record.id} has {kept.record.turns} turns, but tokens of only {len(turns)}. An empty "
            "message and a turn of an endpoint leave no tokens, so it is unknown to which turns these tokens belong"
        )
    return turns


async def _play_again(kept: "KeptPlay", config: "Config", console: "Screen") -> "Conversation[Move]":
    from actors.play.domains import load_chat_formats
    from actors.sandbox import open_sandbox
    from actors.text.conversation import play_conversation
    from spade.app.commands.env.watched import PrintedPlay
    from spade.policy import model_folder
    from spade.protocol import Observed
    from spade.tokens import Tokenizer

    messages = iter(_list_sampled(kept))
    tokenizer = Tokenizer.load(model_folder.resolve(config.model.path), thinking=config.model.thinking)
    chat_format = load_chat_formats(config, tokenizer)(kept.source.reads, kept.source.single_turn)
    turn = 0

    async def recorded(_: "Observed") -> "Move | None":
        nonlocal turn
        tokens = next(messages, None)
        if tokens is None:
            return None
        turn += 1
        text = tokenizer.decode(tokens, chat_format.marks)
        console.tell((f"turn {turn}", "bold"))
        console.print(make_visible(text), style="green")
        return chat_format.act(text)

    async with open_sandbox(config.sandbox) as sandbox:
        watched = PrintedPlay(sandbox, console, state=True)
        first = await watched.open(kept.source.source, kept.seed, config.play.max_turns)
        if isinstance(first, Observed):
            chat_format.open(first, kept.source.hint if kept.record.hinted else None)
        return await play_conversation(first, config.play.max_turns, watched.step, recorded)
