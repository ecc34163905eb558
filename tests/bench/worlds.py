"""The worlds of the pool that ships, played by a checkpoint without training: how often each is won.

    python -m tests.bench.worlds CHECKPOINT [--plays 8] [--pool small] [--out worlds.json]

Prompts, example, temperature and limits are the recipe smol-games'. Each world is played in both arms on the same
instances, and 400 times at random. Programs run in this process, since they are ours.
"""

import inspect
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from actors.engines.torch.engine import TorchEngine
from actors.environments.offers import choose
from actors.play.domains import ChatFormats, load_chat_formats
from actors.text.conversation import Conversation, Move
from actors.text.profile import ChatMessage
from spade.codec import pack_ids, unpack_ids
from spade.config import Config, load
from spade.pools import PoolProgram, read_shipped_programs
from spade.protocol import Generate, Observed, Weights
from spade.tokens import Tokenizer, make_dialogues
from tests.bench.harness import command, conclude

RANDOM_PLAYS = 400


class World:
    """An episode of a program, with the turns of its play."""

    def __init__(self, program: PoolProgram, seed: int, max_turns: int) -> None:
        names: dict[str, Any] = {}
        exec(program.source, names)
        kind = next(value for name, value in names.items() if name.endswith("Env"))
        own = inspect.signature(kind).parameters["max_turns"].default
        self.single_turn = own == 1
        self._world = kind(max_turns=min(own, max_turns))
        self.conversation: Conversation[str] = Conversation(Observed(self._world.reset(seed)[0]), max_turns)

    def act(self, action: str) -> Observed | None:
        """Send an action; what is seen next, None at the end."""
        self.conversation.actions.append(action)
        self.conversation.answers.append(Observed(*self._world.step(action)[:4]))
        return self.conversation.pending

    @property
    def won(self) -> bool:
        last = self.conversation.observed[-1]
        return last.terminated and last.reward >= 1.0


class Play:
    """A play of the checkpoint."""

    def __init__(
        self,
        program: PoolProgram,
        hinted: bool,
        seed: int,
        config: Config,
        chat_formats: ChatFormats,
        tokens: Tokenizer,
    ) -> None:
        self.program, self.hinted, self.seed = program, hinted, seed
        self.world = World(program, seed, config.play.max_turns)
        self._tokenizer, self._play = tokens, config.play
        self._chat_format = chat_formats("inside", self.world.single_turn)
        self._dialogue = make_dialogues(tokens, "keep")()
        self._ids: list[int] = []
        first = self.world.conversation.pending
        assert first is not None
        self._messages: list[ChatMessage] = self._chat_format.open(first, program.hint if hinted else None).messages
        self.said: list[str] = []

    def request(self) -> Generate:
        """The request of the next turn."""
        reading = self._dialogue.read(self._messages, pack_ids(self._ids), self._play.context_tokens)
        self._ids += reading.ids
        seed = random.Random(f"{self.program.name} {self.hinted} {self.seed} {len(self._ids)}").getrandbits(48)
        return Generate(pack_ids(self._ids), self._play.max_turn_tokens, self._play.temperature, seed)

    def take(self, ids: list[int]) -> bool:
        """Take the model's turn; True if another follows."""
        self._ids += ids
        self._dialogue.said(ids)
        self.said.append(self._tokenizer.decode(ids, self._chat_format.marks))
        move: Move = self._chat_format.act(self.said[-1])
        seen = self.world.act(move.action)
        if seen is not None:
            self._messages = self._chat_format.turn(seen, move)
        return seen is not None


def random_share(program: PoolProgram, max_turns: int) -> float:
    """The share of random plays that win."""
    won = 0
    for seed in range(RANDOM_PLAYS):
        world, rng = World(program, seed, max_turns), random.Random(f"random play {seed}")
        seen = world.conversation.pending
        while seen is not None:
            seen = world.act(choose(seen.observation, rng))
        won += world.won
    return won / RANDOM_PLAYS


def played(engine: TorchEngine, plays: list[Play]) -> Iterator[Play]:
    """Play all to their ends; each as it ends."""
    for index, play in enumerate(plays):
        engine.submit(index, play.request())
    while engine.busy:
        for index, generated in engine.step():
            if plays[index].take(unpack_ids(generated.ids).tolist()):
                engine.submit(index, plays[index].request())
            else:
                yield plays[index]


def main() -> None:
    parser = command(__doc__, plays=8, pool="small", out=Path("worlds.json"))
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--set", action="append", default=[], help="a setting of the recipe, as for `spade up`")
    parser.add_argument("--only", nargs="*", help="names of worlds")
    parser.add_argument("--show", action="store_true", help="print what was said")
    given = parser.parse_args()
    torch.set_num_threads(1)
    config = load("smol-games", (f"model.path={given.checkpoint}", "engine.device=cpu", *given.set))
    tokens = Tokenizer.load(given.checkpoint)
    chat_formats = load_chat_formats(config, tokens)
    engine = TorchEngine(Weights(1, 0, "", str(given.checkpoint)), config.engine, config.model.dtype)
    programs = [each for each in read_shipped_programs(given.pool) if not given.only or each.name in given.only]
    plays = [
        Play(program, hinted, seed, config, chat_formats, tokens)
        for program in programs
        for hinted in (False, True)
        for seed in range(given.plays)
    ]
    won: dict[tuple[str, bool], list[bool]] = defaultdict(list)
    said: dict[str, Counter[str]] = defaultdict(Counter)
    for play in played(engine, plays):
        won[play.program.name, play.hinted].append(play.world.won)
        said[f"{play.program.name} {'hinted' if play.hinted else ''}"][" / ".join(play.world.conversation.actions)] += 1
        if given.show:
            print(play.program.name, play.hinted, play.world.won, play.said, file=sys.stderr)
    rows = {
        program.name: {
            "skill": program.skill,
            "unhinted": sum(won[program.name, False]) / given.plays,
            "hinted": sum(won[program.name, True]) / given.plays,
            "random": random_share(program, config.play.max_turns),
        }
        for program in programs
    }
    table = ["| world | skill | unhinted | hinted | random play |", "|---|---|---|---|---|"]
    for name, row in rows.items():
        shares = " | ".join(f"{row[arm]:.2f}" for arm in ("unhinted", "hinted", "random"))
        table.append(f"| `{name}` | {row['skill']} | {shares} |")
    boxed = [bool(action) for play in plays for action in play.world.conversation.actions]
    table.append(f"\n{sum(boxed)} of {len(boxed)} answers have a box")
    conclude(given.out, {"worlds": rows, "actions": said}, "\n".join(table))


if __name__ == "__main__":
    main()
