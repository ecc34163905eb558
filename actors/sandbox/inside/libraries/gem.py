"""GEM: games in several turns (the distribution gem-llm)."""

import importlib
import importlib.resources
import json
from contextlib import suppress
from typing import Any, Literal

from . import reasoning_gym  # noqa: F401 (GEM imports it, and is to find it without matplotlib)
from .one_answer import WINS, graded
from .stand_ins import standing_in
from .words import WordLists

WORDS = WordLists()
PREFIX = "game:"

# The games take NLTK for lists of words, for which they ask the network at each start, and pandas to read one file.
with (
    standing_in("pandas"),
    standing_in("nltk", download=lambda *_: True),
    standing_in("nltk.corpus", words=WORDS),
):
    import gem
    from gem.envs.registration import ENV_REGISTRY

    GAMES = {name.removeprefix(PREFIX): spec for name, spec in ENV_REGISTRY.items() if name.startswith(PREFIX)}
    for spec in GAMES.values():
        importlib.import_module(spec.entry_point.partition(":")[0])
    from gem.envs.game_env.crosswords import CrosswordsEnv


class GemEnv:
    """A game. It is won if the game ends it with rewards of 1 in all: some pay by progress.

    Actions go to the game in a box.
    """

    game = ""
    parameters: dict[str, Any] = {}  # noqa: RUF012 (a program replaces it and changes it never)
    pays: Literal["win", "score"] = "win"
    """"win" pays 1 for a game that is won, at its end, and 0 for everything else; "score" the rewards so far."""

    def reset(self, seed: int) -> tuple[str, dict[str, object]]:
        """The rules and the first state."""
        if self.game not in GAMES:
            raise ValueError(f"GEM has no game {self.game!r}")
        self._game = gem.make(PREFIX + self.game, **self.parameters)
        self._total = 0.0
        return shown(*self._game.reset(seed=seed % 2**32)), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, object]]:
        """The game's answer."""
        boxed = action if r"\boxed" in action else rf"\boxed{{{action.strip()}}}"
        observation, reward, terminated, truncated, info = self._game.step(boxed)
        self._total += float(reward)
        won = terminated and self._total >= WINS
        paid = graded(self._total) if self.pays == "score" else float(won)
        return shown(observation, info), paid, bool(terminated), bool(truncated), {}


def shown(observation: str, info: dict[str, Any]) -> str:
    """The text that a player reads: the game gives its state apart from its answer."""
    suffix = info.get("suffix", "")
    return f"{observation}\n{suffix}" if suffix else str(observation)


def load_clues(game: Any, _: object = None, hardcore: bool = False) -> None:
    """`CrosswordsEnv._load_words` from memory."""
    game.word_data = [clue for clue in CLUES if clue["hardcore"] == hardcore]


CLUES = [
    json.loads(line)
    for line in importlib.resources.files(CrosswordsEnv.__module__.rpartition(".")[0])
    .joinpath("words_clues.jsonl")
    .read_text()
    .splitlines()
]
CrosswordsEnv._load_words = load_clues


def warm() -> None:
    """The beginning of each game in its easy form; those of words begin only where their lists are."""
    for game in GAMES:
        if game.endswith("-easy"):
            with suppress(LookupError):
                type("WarmEnv", (GemEnv,), {"game": game})().reset(0)
