"""One play as a conversation of a player with a program: whose turn it is, how it ended, and what it returned.

`Conversation` is pure; `converse` carries each action to the program and each answer to the player. An action is
whatever the two agree on: the text that a program is sent, or a `Move`.
"""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from spade.protocol import Faulted, Observed, Outcome
from spade.returns import episode_return

Seen = Observed | Faulted
Action = TypeVar("Action")

Step = Callable[[int, Action], Awaitable[Seen]]
"""The program's answer to a turn (from 1) and its action."""
Player = Callable[[Observed], Awaitable[Action | None]]
"""The action after an answer; None where the player leaves."""


class Conversation(Generic[Action]):
    """Answers and actions in turn, of at most `max_turns` actions. `first` is the answer to `reset`.

    actions  as the program got them
    answers  one more than there are actions, once all are answered
    """

    def __init__(self, first: Seen, max_turns: int) -> None:
        self.max_turns = max_turns
        self.actions: list[Action] = []
        self.answers: list[Seen] = [first]

    @property
    def pending(self) -> Observed | None:
        """The answer that waits for an action; None once the play is over."""
        last = self.answers[-1]
        if isinstance(last, Faulted) or last.terminated or last.truncated or len(self.actions) >= self.max_turns:
            return None
        return last

    @property
    def observed(self) -> list[Observed]:
        """All answers but a fault, which can only be the last."""
        return [seen for seen in self.answers if isinstance(seen, Observed)]

    @property
    def rewards(self) -> list[float]:
        """The reward of each action that was answered without a fault."""
        return [seen.reward for seen in self.observed[1:]]

    @property
    def outcome(self) -> Outcome:
        """The end of the play; one that its player left is truncated."""
        last = self.answers[-1]
        if isinstance(last, Faulted):
            return "fault"
        return "terminated" if last.terminated else "truncated"

    @property
    def episode_return(self) -> float:
        """The play's return, in [-1, 1]."""
        return episode_return(self.rewards, self.outcome == "terminated")


async def converse(first: Seen, max_turns: int, step: Step[Action], player: Player[Action]) -> Conversation[Action]:
    """Play from the answer to `reset` to the end."""
    conversation = Conversation[Action](first, max_turns)
    while (seen := conversation.pending) is not None:
        action = await player(seen)
        if action is None:
            break
        conversation.actions.append(action)
        conversation.answers.append(await step(len(conversation.actions), action))
    return conversation
