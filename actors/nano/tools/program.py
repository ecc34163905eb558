"""The text of a program with tools: one frame for every family, as for games.

An instruction asks for one write: `right` has for each key the value to be written under it, and every write goes
through `write`, which refuses any other.
"""

from dataclasses import dataclass
from textwrap import indent

from actors.nano.levels import Given

FRAME = """\
import random


class {name}Env(ToolUseBaseEnv):
    def __init__(self, max_turns: int = {budget}) -> None:
        super().__init__(max_turns)

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        self._state = {{}}
        self.rule = "{rule}"
{reset}
        self._user_messages = [{message} for a, b in self.tasks]
{told}        self._message_criteria = [lambda state, b=b: {met} for a, b in self.tasks]
        return self._user_messages[0], {{}}

    def write(self, key: object, value: object) -> str:
        if "locked" in self._state:
            return "Locked."
        if self.right.get(key) != value:
{refuse}            return "Refused."
        self._state[key] = value
        return "Done."

{tools}
    def solution(self) -> list[tuple[str, dict]]:
        return {solution}
"""

TOLD = "        self._user_messages[0] += {told}\n"
LOCK = '            self._state["locked"] = True\n'


@dataclass(frozen=True)
class ToolMethod:
    """A tool: its name, its parameters with annotations, and the expression of its result."""

    name: str
    parameters: str
    result: str


@dataclass(frozen=True)
class ServiceBody:
    """A family's part of the frame; every field but `rule` and `locks` is Python text.

    rule      the right candidate, which the other parts read as `self.rule`
    reset     sets `self.tasks`, a pair (a, b) for each instruction, and `self.right`
    message   of a and b
    told      the rule in the first message; "" where it is withheld
    locks     a refused write is the last one
    met       the criterion, of `state` and b
    """

    rule: str
    reset: str
    message: str
    told: str
    locks: bool
    tools: tuple[ToolMethod, ...]
    solution: str
    met: str = "b in state"


def render(name: str, knobs: Given, body: ServiceBody) -> str:
    """The complete program."""
    methods = [
        f"    def tool_{tool.name}(self, {tool.parameters}) -> str:\n        return {tool.result}\n"
        for tool in body.tools
    ]
    return FRAME.format(
        name=name,
        budget=knobs.budget,
        rule=body.rule,
        reset=indent(body.reset, " " * 8),
        message=body.message,
        told=TOLD.format(told=body.told) if body.told else "",
        met=body.met,
        refuse=LOCK if body.locks else "",
        tools="\n".join(methods),
        solution=body.solution,
    )
