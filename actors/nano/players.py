"""Playing the world's own programs: the unskilled player, and an episode as the conversation it makes."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from actors.actions import boxed
from actors.nano.families import Player, offered, say
from actors.prompts import Message, Profile


class Guesser:
    """Takes any of the actions an observation offers."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def act(self, observation: str) -> str:
        return say(self.rng.choice(offered(observation)))


@dataclass(frozen=True)
class Episode:
    """The messages of one play, the agent's last among them, and its return."""

    messages: Sequence[Message]
    episode_return: float


def instantiate(source: str) -> Any:
    """An environment of the world's own making; a program a model sampled belongs into a sandbox."""
    scope: dict[str, Any] = {}
    exec(compile(source, "environment", "exec"), scope)  # our own text, straight from the generator
    return next(value for name, value in scope.items() if name.endswith("Env"))()


def play(environment: Any, player: Player, seed: int, hint: str | None, profile: Profile) -> Episode:
    """One episode from reset to its end."""
    observation, _ = environment.reset(seed)
    messages = profile.play(observation, hint)
    while True:
        answer = player.act(observation)
        messages.append(Message("assistant", answer))
        observation, reward, over, _, _ = environment.step(boxed(answer))
        if over:
            return Episode(messages, reward)
        messages.append(profile.turn(observation))
