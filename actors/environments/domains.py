"""The env-runner's side of each domain: how its programs are admitted, and how they are played at random."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from actors.environments.games import GameAdmission
from actors.environments.offers import choose
from actors.environments.stages import Admission
from actors.environments.tools.guesses import RandomCaller
from actors.environments.tools.stages import ToolAdmission
from actors.environments.trials import Policy
from actors.sandbox import Sandbox
from actors.text.actions import action_typed, sent
from actors.text.conversation import Move
from spade.config import DomainName, Play, ToolUse
from spade.config import Sandbox as Limits
from spade.protocol import Form, Observed

Admitting = Callable[[Sandbox, str, int, Limits, Play, ToolUse], Admission[str] | Admission[Move]]
"""The admission of a program: its source, the key of its secret seeds, the settings."""
Sent = Sequence[tuple[Move, bool]]
"""Moves of agents, each with True if the observation before it did not offer its action."""
Guessing = Callable[[random.Random, Form, Sent], Policy[Move]]
"""A player for one play that makes random moves, in the form that the program reads, some of them after agents."""


@dataclass(frozen=True)
class DomainAdmission:
    """One domain on the env-runner's side; `tools` if its programs have tools."""

    admission: Admitting
    guesser: Guessing
    tools: bool


def _game_guesser(rng: random.Random, reads: Form, agents: Sent) -> Policy[Move]:
    actions = [(action_typed(move.action), is_missed) for move, is_missed in agents if move.action.strip()]
    known, missed = [action for action, _ in actions], [action for action, is_missed in actions if is_missed]

    def act(seen: Observed) -> Move:
        return Move(sent(choose(seen.observation, rng, known, missed), reads))

    return act


DOMAINS: Mapping[DomainName, DomainAdmission] = {
    "games": DomainAdmission(GameAdmission, _game_guesser, tools=False),
    "tools": DomainAdmission(
        ToolAdmission, lambda rng, _, agents: RandomCaller(rng, [move for move, _ in agents]).act, tools=True
    ),
}
