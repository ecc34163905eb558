"""The text of an environment. All families share one frame, so a small model only has to learn how they differ."""

from dataclasses import dataclass
from textwrap import indent

from actors.nano.levels import CommonKnobs

FRAME = """\
import random


class {name}Env:
    level = {level}

    def __init__(self, max_turns: int = {budget}) -> None:
        self.max_turns = max_turns
        self.reset(0)

    def reset(self, seed: int) -> tuple[str, dict]:
        self.rng = random.Random(seed)
        self.turn = 0
{reset}
        return self.view({opening}), {{}}

    def view(self, text: str) -> str:
        return f"{{text}} Actions: {actions}"

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        self.turn += 1
        over = self.turn >= self.max_turns
        if action not in self.actions:
            return self.view("Unknown action."), 0.0, over, False, {{}}
{step}
        if {won}:
            return "Well done.", 1.0, True, False, {{}}
        return self.view({reply}), {reward}, over, False, {{}}

    def solution(self) -> list[str]:
        return {solution}

    def close(self) -> None:
        pass
"""

LISTED = "{' '.join(self.actions)}"
"""Expression for the actions in an observation: their names, separated by spaces."""


@dataclass(frozen=True)
class Body:
    """A family's part of the frame. Every field is Python text."""

    reset: str
    """Statements that start an instance."""

    opening: str
    """Expression of the first observation."""

    step: str
    """Statements that carry out an action."""

    won: str
    """Condition of a win."""

    reply: str
    """Expression of the reply to an action that does not win."""

    reward: str
    """Expression of the reward of an action that does not win."""

    solution: str
    """Expression of the winning actions."""

    actions: str = LISTED
    """Expression for the actions in an observation."""


def render(name: str, knobs: CommonKnobs, body: Body) -> str:
    """Write the complete program."""
    return FRAME.format(
        name=name,
        level=knobs.level,
        budget=knobs.budget,
        reset=indent(body.reset, " " * 8),
        opening=body.opening,
        actions=body.actions,
        step=indent(body.step, " " * 8),
        won=body.won,
        reply=body.reply,
        reward=body.reward,
        solution=body.solution,
    )
