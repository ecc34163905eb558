"""Common to the families with tools: knobs in six levels, calls as text, the player that serves requests."""

import json
import random
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from actors.nano.families.base import Player
from actors.nano.levels import LEVELS

LEAST = 2
"""Instructions, and candidates, of the easiest program."""
MOST_NEED = 4
MOST_SPARE = 1
MOST_TURNS = 12
DONE = "<answer>done</answer>"
FINISHED = "All requests are done."
NEXT = "User: "


@dataclass(frozen=True)
class ToolMethod:
    """A tool: its name, its parameters with annotations, and the expression of its result."""

    name: str
    parameters: str
    result: str


@dataclass(frozen=True)
class ServiceKnobs:
    """The parameters of a program.

    need     instructions of an instance; half of the instances have one fewer, and so turns for more wrong candidates:
             a policy that tries the same candidate first wins a program sometimes rather than always or never
    calls    calls that an instruction takes
    among    the candidates, of which `rule` is right
    depth    look-ups in a row before a write
    spare    wrong candidates that the turns allow for
    retry    calls that a wrong candidate takes
    printed  the first instruction states the rule
    """

    need: int
    calls: int
    among: tuple[str, ...]
    rule: str
    depth: int
    spare: int
    retry: int
    printed: bool

    @property
    def turns(self) -> int:
        """The limit, of which the last is for the answer `done`."""
        return self.need * self.calls + self.spare * self.retry + 1

    @property
    def budget(self) -> str:
        return f"{self.need} * {self.calls} + {self.spare * self.retry + 1}"

    @property
    def others(self) -> tuple[str, ...]:
        """The wrong candidates."""
        return tuple(name for name in self.among if name != self.rule)

    @property
    def naming(self) -> "Naming":
        """The names that tools have for things."""
        return Naming(self.depth > 1)

    @property
    def level(self) -> int:
        """The difficulty, 1 to LEVELS."""
        size = (self.need - LEAST) + (len(self.among) - LEAST) + (self.depth - 1)
        return min(LEVELS, 1 + (size + (MOST_SPARE - self.spare) + 2 * (not self.printed)) * 3 // 4)

    def told(self, sentence: str) -> str:
        """The expression of the sentence that states the rule, if the program prints it."""
        return f'f" {sentence}"' if self.printed else ""


@dataclass(frozen=True)
class Naming:
    """A thing's name for the tools: its item, or the number that `find` tells of it. Parts of a program, as text."""

    numbered: bool

    @property
    def where(self) -> str:
        """The parameter that names a thing."""
        return "number" if self.numbered else "item"

    @property
    def tools(self) -> tuple[ToolMethod, ...]:
        """The tool that tells numbers, if things have them."""
        return (ToolMethod("find", "item: str", "self.number.get(item)"),) if self.numbered else ()

    def drawn(self, count: str) -> str:
        """The line of `reset` that draws a number for each of the `count` items; "" without numbers."""
        return f'self.number = dict(zip(items, rng.sample("123456789", {count})))\n' if self.numbered else ""

    @property
    def names(self) -> str:
        """The names of all `items`."""
        return "self.number.values()" if self.numbered else "items"

    def name(self, item: str) -> str:
        """The name of the thing that the expression `item` means."""
        return f"self.number[{item}]" if self.numbered else item

    def look(self, item: str) -> str:
        """The calls of a solution that come before the name is known."""
        return f'("find", {{"item": {item}}}), ' if self.numbered else ""

    def found(self, item: str) -> Generator[str, str, dict[str, str]]:
        """A player's messages until it knows the name; returns it as an argument."""
        return {self.where: (yield call("find", item=item)) if self.numbered else item}


def draw(rng: random.Random, rules: Sequence[str], calls: int, retry: int) -> ServiceKnobs:
    """ServiceKnobs of a level that is drawn first, so that none is rare.

    `rules` are all candidates; `calls` are those of an instruction at depth 1, `retry` those of a wrong candidate.
    """
    level = rng.randint(1, LEVELS)
    while True:
        need, depth, spare = rng.randint(LEAST, MOST_NEED), rng.randint(1, 2), rng.randint(0, MOST_SPARE)
        # Tools are shown in the program's order, which must not tell the rule.
        among = tuple(sorted(rng.sample(rules, rng.randint(LEAST, len(rules)))))
        printed = rng.random() < 0.5
        knobs = ServiceKnobs(need, calls + depth - 1, among, rng.choice(among), depth, spare, retry, printed)
        if knobs.level == level and knobs.turns <= MOST_TURNS:
            return knobs


def call(name: str, /, **arguments: str | int) -> str:
    """A message that is one call."""
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def listed(entries: str) -> str:
    """The expression of a result that lists, by name, the dict which the expression `entries` means."""
    return f'", ".join(f"{{k}} {{v}}" for k, v in sorted({entries}.items()))'


def heard_list(result: str) -> dict[str, str]:
    """The entries of a result that lists some."""
    return dict(entry.split() for entry in result.split(", "))


Steps = Generator[str, str, None]
"""The messages that serve one request; each is sent the result of the one before it. It never ends by itself."""
Plan = Callable[[str, list[str]], Steps]
"""The steps for a request, by the candidates that are left, the one to try first; a refused one is taken out."""


class Clerk:
    """Serves each request by the plan, and submits when all are done."""

    def __init__(self, plan: Plan, candidates: list[str]) -> None:
        self.plan = plan
        self.left = candidates
        self.steps: Steps | None = None

    def act(self, observation: str) -> str:
        if FINISHED in observation:
            return DONE
        request = requested(observation)
        if self.steps is None or request is not None:
            self.steps = self.plan(request or "", self.left)
            return next(self.steps)
        return self.steps.send(observation)


def clerk(plan: Plan, knobs: ServiceKnobs, informed: bool, rng: random.Random) -> Player:
    """A skilled player; uninformed it tries the candidates in any order."""
    return Clerk(plan, [knobs.rule] if informed else rng.sample(knobs.among, len(knobs.among)))


def requested(observation: str) -> str | None:
    """The request in what a player hears: the end of the opening, which begins with the tools, or of a result."""
    if observation.startswith("["):
        return observation.splitlines()[-1]
    return observation.rpartition(NEXT)[2] if NEXT in observation else None


def refused(left: list[str]) -> None:
    """Take the candidate that was tried out of those that are left."""
    if len(left) > 1:
        del left[0]


class ToolGuesser:
    """Calls any tool, with words and numbers that it has heard; submits when it is told to."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.tools: list[dict[str, Any]] = []
        self.heard: list[str] = []

    def act(self, observation: str) -> str:
        if FINISHED in observation:
            return DONE
        if observation.startswith("["):
            tools, _, observation = observation.partition("\n")
            self.tools = json.loads(tools)
        self.heard += re.findall(r"[a-z]+|\d+", observation)
        function = self.rng.choice(self.tools)["function"]
        properties = function["parameters"]["properties"]
        arguments = {name: self.argument(schema) for name, schema in properties.items()}
        return call(str(function["name"]), **arguments)

    def argument(self, schema: dict[str, Any]) -> str | int:
        """A value that the schema allows."""
        if "enum" in schema:
            return str(self.rng.choice(schema["enum"]))
        if schema["type"] == "integer":
            numbers = [int(word) for word in self.heard if word.isdigit()]
            return self.rng.choice(numbers or list(range(1, 10)))
        return self.rng.choice(self.heard)
