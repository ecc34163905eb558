"""GEM: games in several turns (the distribution gem-llm)."""

import importlib
import importlib.resources
import json
from contextlib import suppress
from typing import Any, Literal

from . import reasoning_gym  # noqa: F401 (GEM imports it: this import comes first and replaces matplotlib)
from .one_answer import WINS, clip_score
from .stand_ins import put_stand_ins
from .words import WordLists

WORDS = WordLists()
PREFIX = "game:"

# The games use NLTK for word lists, which they download at each start, and pandas to read one file.
with (
    put_stand_ins("pandas"),
    put_stand_ins("nltk", download=lambda *_: True),
    put_stand_ins("nltk.corpus", words=WORDS),
):
    import gem
    from gem.envs.registration import ENV_REGISTRY

    GAMES = {name.removeprefix(PREFIX): spec for name, spec in ENV_REGISTRY.items() if name.startswith(PREFIX)}
    for spec in GAMES.values():
        importlib.import_module(spec.entry_point.partition(":")[0])
    from gem.envs.game_env.crosswords import CrosswordsEnv


class GemEnv:
    r"""A game. It is won if it ends with a total reward of at least 1, since some games pay by progress.

    An action without `\boxed` is put in a box before it goes to the game.
    """

    game = ""
    parameters: dict[str, Any] = {}  # noqa: RUF012 (programs replace this value and never mutate it)
    pays: Literal["win", "score"] = "win"
    """"win" pays 1 at the end of a won game and 0 otherwise; "score" pays the total reward so far."""

    def reset(self, seed: int) -> tuple[str, dict[str, object]]:
        """Return the rules and the first state."""
        if self.game not in GAMES:
            raise ValueError(f"GEM has no game {self.game!r}")
        self._game = gem.make(PREFIX + self.game, **self.parameters)
        self._total = 0.0
        return join_observation(*self._game.reset(seed=seed % 2**32)), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, object]]:
        """Return the game's answer."""
        boxed = action if r"\boxed" in action else rf"\boxed{{{action.strip()}}}"
        observation, reward, terminated, truncated, info = self._game.step(boxed)
        self._total += float(reward)
        won = terminated and self._total >= WINS
        paid = clip_score(self._total) if self.pays == "score" else float(won)
        return join_observation(observation, info), paid, bool(terminated), bool(truncated), {}


def join_observation(observation: str, info: dict[str, Any]) -> str:
    """Return the text that a player reads: the game's answer and, if given separately, its state."""
    suffix = info.get("suffix", "")
    return f"{observation}\n{suffix}" if suffix else str(observation)


def load_clues(game: Any, _: object = None, hardcore: bool = False) -> None:
    """Load clues from memory. This replaces `CrosswordsEnv._load_words`."""
    game.word_data = [clue for clue in CLUES if clue["hardcore"] == hardcore]


CLUES = [
    json.loads(line)
    for line in importlib.resources.files(CrosswordsEnv.__module__.rpartition(".")[0])
    .joinpath("words_clues.jsonl")
    .read_text()
    .splitlines()
]
CrosswordsEnv._load_words = load_clues


def programs() -> dict[str, dict[str, Any]]:
    """Return the program attributes of each game."""
    return {name: {"game": name} for name in GAMES}


def warm() -> None:
    """Begin each game in its easy form. Word games cannot begin if their word lists are missing."""
    for game in GAMES:
        if game.endswith("-easy"):
            with suppress(LookupError):
                type("WarmEnv", (GemEnv,), {"game": game})().reset(0)
