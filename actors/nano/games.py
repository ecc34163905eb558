"""The nano world of games."""

import random
from typing import Any

from actors.nano.families import FAMILIES, offered, say
from actors.nano.program import render
from actors.nano.prompts import NanoProfile
from actors.nano.world import World
from actors.text.conversation import GameTalk, Move
from spade.config import SKILLS
from spade.protocol import Observed


class Guesser:
    """Takes any of the actions an observation offers."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def act(self, observation: str) -> str:
        return say(self.rng.choice(offered(observation)))


class GameSimulation:
    """See Simulation."""

    def __init__(self, source: str) -> None:
        self._environment = instantiate(source)

    @property
    def turns(self) -> int:
        """See Simulation."""
        return int(self._environment.max_turns)

    def reset(self, seed: int) -> Observed:
        """See Simulation."""
        observation, _ = self._environment.reset(seed)
        return Observed(observation)

    def answer(self, move: Move) -> Observed:
        """See Simulation."""
        observation, reward, terminated, truncated, _ = self._environment.step(move.action)
        return Observed(observation, reward, terminated, truncated)


def instantiate(source: str) -> Any:
    """An environment."""
    scope: dict[str, Any] = {}
    exec(compile(source, "environment", "exec"), scope)  # our own text, straight from the generator
    return next(value for name, value in scope.items() if name.endswith("Env"))()


_PROFILE = NanoProfile(FAMILIES, ("everyday", "mathematics", "science"))

GAMES = World(
    name="games",
    families=FAMILIES,
    skills=SKILLS,
    render=render,
    profile=_PROFILE,
    talk=lambda: GameTalk(_PROFILE.play),
    guesser=Guesser,
    skilled_unhinted=0.55,
)
