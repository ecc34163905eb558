"""One play as a conversation of a player with a program. It tracks turns, the end of the play and its return.

`Conversation` is pure. `play_conversation` carries each action to the program and each answer to the player. An action
is the text that a program receives, or a `Move`.
"""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from spade.protocol import Faulted, Observed, Outcome
from spade.returns import compute_episode_return

ProgramAnswer = Observed | Faulted
Action = TypeVar("Action")

Step = Callable[[int, Action], Awaitable[ProgramAnswer]]
"""Answers an action with the program's reply. Takes the turn, from 1, and the action."""
Player = Callable[[Observed], Awaitable[Action | None]]
"""Chooses the action after an answer, or None to leave the play."""


class Conversation(Generic[Action]):
    """The actions of a player and the answers of a program, with at most `max_turns` actions.

    * actions: as the program received them
    * answers: `first`, which is the answer to `reset`, then the answer to each action
    """

    def __init__(self, first: ProgramAnswer, max_turns: int) -> None:
        self.max_turns = max_turns
        self.actions: list[Action] = []
        self.answers: list[ProgramAnswer] = [first]

    @property
    def pending(self) -> Observed | None:
        """Return the answer that waits for an action, or None once the play is over."""
        last = self.answers[-1]
        if isinstance(last, Faulted) or last.terminated or last.truncated or len(self.actions) >= self.max_turns:
            return None
        return last

    @property
    def observed(self) -> list[Observed]:
        """Return all answers except a fault. A fault can only be the last answer."""
        return [seen for seen in self.answers if isinstance(seen, Observed)]

    @property
    def rewards(self) -> list[float]:
        """Return the reward of each action that was answered without a fault."""
        return [seen.reward for seen in self.observed[1:]]

    @property
    def outcome(self) -> Outcome:
        """Return how the play ended. A play that its player left counts as truncated."""
        last = self.answers[-1]
        if isinstance(last, Faulted):
            return "fault"
        return "terminated" if last.terminated else "truncated"

    @property
    def episode_return(self) -> float:
        """Return the play's return, in [-1, 1]."""
        return compute_episode_return(self.rewards, self.outcome == "terminated")


async def play_conversation(
    first: ProgramAnswer, max_turns: int, step: Step[Action], player: Player[Action]
) -> Conversation[Action]:
    """Play from the answer to `reset` until the end."""
    conversation = Conversation[Action](first, max_turns)
    while (seen := conversation.pending) is not None:
        action = await player(seen)
        if action is None:
            break
        conversation.actions.append(action)
        conversation.answers.append(await step(len(conversation.actions), action))
    return conversation
