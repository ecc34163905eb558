"""Playing the world's own programs: the unskilled player, and an episode as the conversation it makes."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from actors.nano.families import Player, offered, say
from actors.text.conversation import Conversation, Talk
from actors.text.profile import ChatMessage
from spade.protocol import Observed


class Guesser:
    """Takes any of the actions an observation offers."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def act(self, observation: str) -> str:
        return say(self.rng.choice(offered(observation)))


@dataclass(frozen=True)
class Playthrough:
    """The messages of one play, the agent's last among them, and its return."""

    messages: Sequence[ChatMessage]
    episode_return: float


def instantiate(source: str) -> Any:
    """An environment of the world's own making; a program a model sampled belongs into a sandbox."""
    scope: dict[str, Any] = {}
    exec(compile(source, "environment", "exec"), scope)  # our own text, straight from the generator
    return next(value for name, value in scope.items() if name.endswith("Env"))()


def begin(environment: Any, seed: int) -> Conversation[str]:
    """A play of an instance, at its first observation."""
    observation, _ = environment.reset(seed)
    return Conversation(Observed(observation), environment.max_turns)


def go_on(environment: Any, conversation: Conversation[str], action: str) -> None:
    """Take an action."""
    conversation.actions.append(action)
    observation, reward, terminated, truncated, _ = environment.step(action)
    conversation.answers.append(Observed(observation, reward, terminated, truncated))


def play(environment: Any, player: Player, seed: int, hint: str | None, talk: Talk) -> Playthrough:
    """One episode from reset to its end."""
    conversation = begin(environment, seed)
    messages, move = list[ChatMessage](), None
    while (seen := conversation.pending) is not None:
        messages += talk.open(seen, hint).messages if move is None else talk.turn(seen, move)
        messages.append(ChatMessage("assistant", player.act(seen.observation)))
        move = talk.act(messages[-1].content)
        go_on(environment, conversation, move.action)
    return Playthrough(messages, conversation.episode_return)
