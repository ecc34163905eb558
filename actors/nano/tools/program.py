"""The text of a program with tools. All families share one frame, as in games.

An instruction asks for one write. `right` maps each key to the value to be written. Every write goes
through `write`, which refuses any other value.
"""

from dataclasses import dataclass
from textwrap import indent

from actors.nano.tools.base import ServiceKnobs, ToolMethod

FRAME = """\
import random


class {name}Env(ToolUseBaseEnv):
    def __init__(self, max_turns: int = {budget}) -> None:
        super().__init__(max_turns)

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        self._state = {{}}
        self.rule = "{rule}"
        count = {need} - rng.randint(0, 1)
{reset}
        self._user_messages = [{message} for a, b in self.tasks]
{rule_sentence}        self._message_criteria = [lambda state, b=b: {met} for a, b in self.tasks]
        return self._user_messages[0], {{}}

    def write(self, key: object, value: object) -> str:
        if self.right.get(key) != value:
            return "Refused."
        self._state[key] = value
        return "Done."

{tools}
    def solution(self) -> list[tuple[str, dict]]:
        return {solution}
"""

RULE_LINE = "        self._user_messages[0] += {sentence}\n"


@dataclass(frozen=True)
class ServiceBody:
    """A family's part of the frame. Every field is Python text.

    The text may read `self.rule`, and `count`, the number of instructions.
    """

    reset: str
    """Sets `self.tasks` (a pair (a, b) for each instruction) and `self.right` (the value to write for each key)."""

    message: str
    """Expression of the instruction, from a and b."""

    rule_sentence: str
    """Expression of the sentence that states the rule, appended to the first instruction. "" if it is not stated."""

    tools: tuple[ToolMethod, ...]
    """The tools."""

    solution: str
    """Expression of the solution's list of calls."""

    met: str = "b in state"
    """Condition under which an instruction counts as done, from `state` and b."""


def render(name: str, knobs: ServiceKnobs, body: ServiceBody) -> str:
    """Write the complete program."""
    methods = [
        f"    def tool_{tool.name}(self, {tool.parameters}) -> str:\n        return {tool.result}\n"
        for tool in body.tools
    ]
    return FRAME.format(
        name=name,
        budget=knobs.budget,
        rule=knobs.rule,
        need=knobs.need,
        reset=indent(body.reset, " " * 8),
        message=body.message,
        rule_sentence=RULE_LINE.format(sentence=body.rule_sentence) if body.rule_sentence else "",
        met=body.met,
        tools="\n".join(methods),
        solution=body.solution,
    )
