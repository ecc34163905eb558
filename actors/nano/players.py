"""Play programs of the nano world. Each episode becomes a conversation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from actors.nano.families import Player
from actors.text.conversation import ChatFormat, Conversation, Move
from actors.text.profile import ChatMessage
from spade.protocol import Observed
from spade.tokens import NO_TOOLS, Tools


class Simulation(Protocol):
    """A program that this world wrote, run in this process. A model's program must run in a sandbox instead."""

    @property
    def turns(self) -> int:
        """Return the turn limit of an episode."""
        ...

    def reset(self, seed: int) -> Observed:
        """Begin an instance."""
        ...

    def answer(self, move: Move) -> Observed:
        """Take a turn."""
        ...


@dataclass(frozen=True)
class ShownConversation:
    """A conversation that ends with the agent's last message, and the tools that the agent may call."""

    messages: Sequence[ChatMessage]
    """The messages."""

    tools: Tools = NO_TOOLS
    """The tools. NO_TOOLS in games."""


@dataclass(frozen=True)
class Playthrough:
    """One play and its return."""

    shown: ShownConversation
    """The conversation."""

    episode_return: float
    """The return, in [-1, 1]."""


def begin(simulation: Simulation, seed: int) -> Conversation[Move]:
    """Begin a play of an instance. Return the conversation with its first observation."""
    return Conversation(simulation.reset(seed), simulation.turns)


def take_turn(simulation: Simulation, conversation: Conversation[Move], move: Move) -> None:
    """Take a turn."""
    conversation.actions.append(move)
    conversation.answers.append(simulation.answer(move))


def play(simulation: Simulation, player: Player, seed: int, hint: str | None, chat_format: ChatFormat) -> Playthrough:
    """Play one episode from reset to its end."""
    conversation = begin(simulation, seed)
    messages, tools, move = list[ChatMessage](), NO_TOOLS, None
    while (observed := conversation.pending) is not None:
        if move is None:
            opened, tools = chat_format.open(observed, hint)
            messages += opened
        else:
            messages += chat_format.turn(observed, move)
        messages.append(ChatMessage("assistant", player.act(join_texts(observed))))
        move = chat_format.act(messages[-1].content)
        take_turn(simulation, conversation, move)
    return Playthrough(ShownConversation(messages, tools), conversation.episode_return)


def join_texts(observed: Observed) -> str:
    """Return everything that a player reads: the tools (in the opening only), the results, and the observation."""
    results = (result.text for result in observed.results)
    return "\n".join(part for part in (observed.tools, *results, observed.observation) if part)
