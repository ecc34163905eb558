"""Measures a checkpoint in both roles: it designs, writes hints, and plays environments of the world."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from actors.engines.torch.engine import TorchEngine
from actors.nano.demonstrations import choose, design
from actors.nano.players import begin, take_turn
from actors.nano.world import World
from actors.text.profile import ChatMessage, Document
from spade.app.nano.simulation import SIMULATIONS
from spade.codec import pack_ids, unpack_ids
from spade.config import Engine, load
from spade.progress import show
from spade.protocol import Generate, Weights
from spade.seeds import derive
from spade.tokens import Tokenizer

TEMPERATURE = 1.0
ROWS, CONTEXT_TOKENS, KV_BYTES = 64, 768, 1 << 30
RECIPE = "nano-tools"
"""The recipe that limits the tokens of designs, hints and plays. A play without room for another turn ends."""


@dataclass(frozen=True)
class Play:
    """An episode to play."""

    source: str
    """The program."""

    seed: int
    """The seed of the instance."""

    hint: str | None
    """The hint. None in the unhinted arm."""


class Checkpoint:
    """A checkpoint, loaded into a separate engine."""

    def __init__(self, world: World, folder: Path, seed: int) -> None:
        self.tokenizer = Tokenizer.load(folder)
        settings = Engine(rows=ROWS, context_tokens=CONTEXT_TOKENS, kv_bytes=KV_BYTES, device="cpu")
        self.engine = TorchEngine(Weights(0, 0, "", str(folder)), settings, "float32")
        self.recipe = load(RECIPE)
        self.world = world
        self.seed = seed
        self.requests = self.sampled = 0

    def designs(self, count: int, documents: Sequence[Document]) -> list[str]:
        """Sample answers to design requests, which are drawn like the requests of demonstrations."""
        rng = random.Random(derive(b"", "nano report: designs", self.seed))
        requests = [design(self.world, rng, *choose(self.world, rng, documents), documents)[:1] for _ in range(count)]
        return self._answers(requests, self.recipe.design.max_tokens)

    def hints(self, sources: Sequence[str]) -> list[str]:
        """Sample a hint for each program."""
        answers = self._answers(
            [self.world.profile.hint(source) for source in sources], self.recipe.design.hint_max_tokens
        )
        return [self.world.profile.hint_text(answer) for answer in answers]

    def returns(self, plays: Sequence[Play]) -> list[float]:
        """Return the episode return of each play.

        The programs run in this process, without a sandbox. So the nano world must have written them, not a model.
        """
        limits = self.recipe.play
        simulations = [SIMULATIONS[self.world.name](play.source) for play in plays]
        chat_formats = [self.world.chat_format() for _ in plays]
        played = [begin(simulation, play.seed) for simulation, play in zip(simulations, plays, strict=True)]
        contexts: dict[int, list[int]] = {}
        for number, (conversation, play) in enumerate(zip(played, plays, strict=True)):
            opening = chat_formats[number].open(conversation.observed[0], play.hint)
            contexts[number] = self.tokenizer.prompt_ids(opening.messages, tools=opening.tools)
        with show("playing", len(plays), lambda: len(plays) - len(contexts)):
            while contexts:
                answers = self._sample(list(contexts.values()), limits.max_turn_tokens)
                for number, answer in zip(list(contexts), answers, strict=True):
                    chat_format = chat_formats[number]
                    move = chat_format.act(self.tokenizer.decode(answer, chat_format.marks))
                    take_turn(simulations[number], played[number], move)
                    pending = played[number].pending
                    if pending is not None:
                        contexts[number] += answer + self.tokenizer.turn_ids(answer, chat_format.turn(pending, move))
                    if pending is None or len(contexts[number]) + limits.max_turn_tokens > limits.context_tokens:
                        del contexts[number]
        return [conversation.episode_return for conversation in played]

    def _answers(self, requests: Sequence[Sequence[ChatMessage]], max_tokens: int) -> list[str]:
        done = self.sampled
        with show("sampling", len(requests), lambda: self.sampled - done):
            sampled = self._sample([self.tokenizer.prompt_ids(request) for request in requests], max_tokens)
        return [self.tokenizer.decode(ids) for ids in sampled]

    def _sample(self, prompts: Sequence[list[int]], max_tokens: int) -> list[list[int]]:
        """Sample continuations, including the end-of-turn token."""
        for number, prompt in enumerate(prompts):
            seed = derive(b"", "nano report: sampling", self.seed, self.requests + number)
            self.engine.submit(number, Generate(pack_ids(prompt), max_tokens, TEMPERATURE, seed))
        self.requests += len(prompts)
        answers: dict[int, list[int]] = {}
        while self.engine.busy:
            answers.update((number, unpack_ids(generated.ids).tolist()) for number, generated in self.engine.step())
            self.sampled = self.requests - len(prompts) + len(answers)
        return [answers[number] for number in range(len(prompts))]
