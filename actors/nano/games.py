"""The nano world of games."""

import random
from functools import cache
from typing import Any

from actors.nano.families import FAMILIES, Game, read_offered, write_message
from actors.nano.program import render
from actors.nano.prompts import NanoProfile, find_class_name, match_family
from actors.nano.world import World
from actors.text.conversation import GameChatFormat, Move
from spade.config import SKILLS
from spade.protocol import Observed


class Guesser:
    """A player that takes a random action among those offered."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def act(self, observation: str) -> str:
        return write_message(self.rng.choice(read_offered(observation)))


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
    """Create the environment of a program."""
    scope: dict[str, Any] = {}
    exec(compile(source, "environment", "exec"), scope)  # safe to execute: this package generated the text
    return next(value for name, value in scope.items() if name.endswith("Env"))()


def find_family(source: str) -> str | None:
    """Return the name of a program's family, from the name of its class. None for a class of another kind."""
    family = match_family(FAMILIES, find_class_name(source))
    return None if family is None else family.name


def find_level(source: str) -> int | None:
    """Return the true level of a program, from its text. None for a program that this world does not write."""
    name = find_class_name(source)
    family = match_family(FAMILIES, name)
    return None if family is None else _list_levels(family).get(source.replace(f"class {name}:", "class Env:", 1))


@cache
def _list_levels(family: Game) -> dict[str, int]:
    """Return the level of each program of a family. All programs get the same class name."""
    return {render("", knobs, family.body(knobs, ())): knobs.level for space in family.spaces for knobs in space}


_FIELDS = ("everyday", "mathematics", "science")
_PROFILE = NanoProfile(FAMILIES, _FIELDS)

GAMES = World(
    name="games",
    families=FAMILIES,
    skills=SKILLS,
    render=render,
    profile=_PROFILE,
    chat_format=lambda: GameChatFormat(_PROFILE.play),
    guesser=Guesser,
    skilled_unhinted=(0.84, 0.66, 0.38, 0.3, 0.25, 0.2),
    skilled_hinted=(0.95, 0.92, 0.9, 0.85, 0.75, 0.7),
    by_level=True,
    fields=_FIELDS,
)
