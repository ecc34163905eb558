"""The env-runner's side of each domain: how to admit its programs, play them at random, and play their solution."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from actors.environments.games import GameAdmission
from actors.environments.offers import choose
from actors.environments.stages import Admission
from actors.environments.tools.guesses import RandomCaller
from actors.environments.tools.stages import DONE, ToolAdmission
from actors.environments.trials import Policy
from actors.sandbox import Sandbox
from actors.sandbox.wire import SolutionReply
from actors.text.actions import can_say, format_action, read_typed_action, strip_action
from actors.text.conversation import Move
from spade.config import DomainName, Play, ToolUse
from spade.config import Sandbox as Limits
from spade.protocol import Form, Observed, ToolCall

Admitting = Callable[[Sandbox, str, int, Limits, Play, ToolUse], Admission[str] | Admission[Move]]
"""Make the admission of a program from its source, the key of its secret seeds, and the settings."""
Solving = Callable[[SolutionReply, Form], list[Move] | None]
"""Return the moves of a solution, in the form that the program reads; None if the solution lists no actions."""
SentMoves = Sequence[tuple[Move, bool]]
"""Moves of agents, each with True if the observation before the move did not offer its action."""
Guessing = Callable[[random.Random, Form, SentMoves], Policy[Move]]
"""Make a player for one play. It makes random moves, in the form that the program reads, and sometimes a move that an
agent sent."""


@dataclass(frozen=True)
class DomainAdmission:
    """The functions with which an env-runner admits, plays and solves programs of one domain."""

    admission: Admitting
    """Makes the admission of a program."""
    guesser: Guessing
    """Makes a random player."""
    solution: Solving
    """Turns a solution into moves."""


def _make_game_guesser(rng: random.Random, reads: Form, agents: SentMoves) -> Policy[Move]:
    actions = [(read_typed_action(move.action), is_missed) for move, is_missed in agents if move.action.strip()]
    known, missed = [action for action, _ in actions], [action for action, is_missed in actions if is_missed]

    def act(seen: Observed) -> Move:
        return Move(format_action(choose(seen.observation, rng, known, missed), reads))

    return act


def _make_tool_guesser(rng: random.Random, _: Form, agents: SentMoves) -> Policy[Move]:
    return RandomCaller(rng, [move for move, _ in agents]).act


def _read_game_solution(solved: SolutionReply, reads: Form) -> list[Move] | None:
    if solved.actions is None:
        return None
    return [Move(format_action(strip_action(action), reads)) for action in solved.actions]


def _read_tool_solution(solved: SolutionReply, _: Form) -> list[Move] | None:
    calls = [Move("", (ToolCall(name, arguments),)) for name, arguments in solved.calls]
    if not all(can_say(arguments) for _, arguments in solved.calls):
        return []
    return [*calls, DONE] if calls else None


DOMAINS: Mapping[DomainName, DomainAdmission] = {
    "games": DomainAdmission(GameAdmission, _make_game_guesser, _read_game_solution),
    "tools": DomainAdmission(ToolAdmission, _make_tool_guesser, _read_tool_solution),
}
