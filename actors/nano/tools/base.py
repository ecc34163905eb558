"""Shared parts of the families with tools: knobs in six levels, calls as text, and the player that serves requests."""

import json
import random
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from actors.nano.families.base import Player
from actors.nano.levels import LEVELS

LEAST = 2
"""Number of instructions, and of candidates, in the easiest program."""
MOST_NEED = 4
PRINTED_SPARE = 1
"""The most wrong candidates that a program allows if it prints the rule."""
WITHHELD = 3
"""Steps of difficulty that a withheld rule adds. They are as many as three further instructions add."""
MOST_TURNS = 16
DONE = "<answer>done</answer>"
FINISHED = "All requests are done."
NEXT = "User: "


@dataclass(frozen=True)
class ToolMethod:
    """A tool of a program."""

    name: str
    """The tool's name."""

    parameters: str
    """The parameters of its method, with annotations."""

    result: str
    """Expression of the tool's result."""


@dataclass(frozen=True)
class ServiceKnobs:
    """The parameters of a program."""

    need: int
    """Number of instructions of an instance. Half of the instances have one fewer, which leaves turns for more wrong
    candidates. So a policy that always tries the same candidate first wins some instances of a program, but not all."""

    calls: int
    """Number of calls needed for an instruction."""

    among: tuple[str, ...]
    """The candidates: the possible rules, one of which is right."""

    rule: str
    """The right candidate."""

    depth: int
    """2 if a call needs the result of another call, else 1."""

    spare: int
    """Number of wrong candidates that may be tried within the turn limit. If the rule is withheld, a player may try all
    of them, so that luck decides no program."""

    retry: int
    """Number of calls that trying a wrong candidate costs."""

    printed: bool
    """True if the first instruction states the rule."""

    @property
    def turns(self) -> int:
        """Return the turn limit. The last turn is for the answer `done`."""
        return self.need * self.calls + self.spare * self.retry + 1

    @property
    def budget(self) -> str:
        return f"{self.need} * {self.calls} + {self.spare * self.retry + 1}"

    @property
    def others(self) -> tuple[str, ...]:
        """Return the wrong candidates."""
        return tuple(name for name in self.among if name != self.rule)

    @property
    def naming(self) -> "Naming":
        """Return the names that tools use for things."""
        return Naming(self.depth > 1)

    @property
    def level(self) -> int:
        """Return the difficulty, 1 to LEVELS."""
        size = (self.need - LEAST) + (len(self.among) - LEAST) + (self.depth - 1)
        search = PRINTED_SPARE - self.spare if self.printed else WITHHELD
        return min(LEVELS, 1 + (size + search) * 3 // 4)

    def write_rule(self, sentence: str) -> str:
        """Return the expression of the sentence that states the rule, or "" if the program does not print the rule."""
        return f'f" {sentence}"' if self.printed else ""


@dataclass(frozen=True)
class Naming:
    """The way in which tools name a thing: by its item, or by the number that `find` returns.

    Methods return program text.
    """

    numbered: bool
    """True if things are named by number."""

    @property
    def where(self) -> str:
        """Return the parameter that names a thing."""
        return "number" if self.numbered else "item"

    @property
    def tools(self) -> tuple[ToolMethod, ...]:
        """Return the tool that finds numbers. Empty if things are named by item."""
        return (ToolMethod("find", "item: str", "self.number.get(item)"),) if self.numbered else ()

    def drawn(self, count: str) -> str:
        """Return the line of `reset` that draws a number for each of the `count` items, or "" without numbers."""
        return f'self.number = dict(zip(items, rng.sample("123456789", {count})))\n' if self.numbered else ""

    @property
    def names(self) -> str:
        """Return the names of all `items`."""
        return "self.number.values()" if self.numbered else "items"

    def name(self, item: str) -> str:
        """Return the name of the thing that the expression `item` denotes."""
        return f"self.number[{item}]" if self.numbered else item

    def look(self, item: str) -> str:
        """Return the calls with which a solution finds out the name of a thing."""
        return f'("find", {{"item": {item}}}), ' if self.numbered else ""

    def found(self, item: str) -> Generator[str, str, dict[str, str]]:
        """Yield the messages with which a player finds out a thing's name. Return the name as an argument of a call."""
        return {self.where: (yield call("find", item=item)) if self.numbered else item}


def draw(rng: random.Random, rules: Sequence[str], calls: int, retries: tuple[int, int] = (1, 1)) -> ServiceKnobs:
    """Draw ServiceKnobs. The level is drawn first, so that no level is rare.

    `rules` are all candidates. `calls`: calls needed for an instruction at depth 1. `retries`: calls that a wrong
    candidate costs at depth 1 and at depth 2.
    """
    level = rng.randint(1, LEVELS)
    while True:
        need, depth = rng.randint(LEAST, MOST_NEED), rng.randint(1, 2)
        # Tools are shown in the program's order, which must not reveal the rule.
        among = tuple(sorted(rng.sample(rules, rng.randint(LEAST, len(rules)))))
        printed = rng.random() < 0.5
        spare = rng.randint(0, PRINTED_SPARE) if printed else len(among) - 1
        retry = retries[depth - 1]
        knobs = ServiceKnobs(need, calls + depth - 1, among, rng.choice(among), depth, spare, retry, printed)
        if knobs.level == level and knobs.turns <= MOST_TURNS:
            return knobs


def call(name: str, /, **arguments: str | int) -> str:
    """Write a message that is one call."""
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def list_entries(entries: str) -> str:
    """Return the expression of a result that lists a dict, sorted by name. `entries` is the dict's expression."""
    return f'", ".join(f"{{k}} {{v}}" for k, v in sorted({entries}.items()))'


def parse_entries(result: str) -> dict[str, str]:
    """Parse a result that lists entries."""
    return dict(entry.split() for entry in result.split(", "))


Steps = Generator[str, str, None]
"""The messages that serve one request. `send` passes the result of the message before. The generator never ends."""
Plan = Callable[[str, list[str]], Steps]
"""Makes the steps for a request. Gets the remaining candidates in the order to try them, and removes each refused
candidate from the list."""


class Clerk:
    """A player that serves each request by the plan and submits when all are done."""

    def __init__(self, plan: Plan, candidates: list[str]) -> None:
        self.plan = plan
        self.left = candidates
        self.steps: Steps | None = None

    def act(self, observation: str) -> str:
        if FINISHED in observation:
            return DONE
        request = find_request(observation)
        if self.steps is None or request is not None:
            self.steps = self.plan(request or "", self.left)
            return next(self.steps)
        return self.steps.send(observation)


def make_clerk(plan: Plan, knobs: ServiceKnobs, informed: bool, rng: random.Random) -> Player:
    """Return a skilled player. An uninformed one tries the candidates in random order."""
    return Clerk(plan, [knobs.rule] if informed else rng.sample(knobs.among, len(knobs.among)))


def find_request(observation: str) -> str | None:
    """Find the request in an observation, or return None.

    In the opening, which begins with the tools, the request is the last line. In a result it follows NEXT.
    """
    if observation.startswith("["):
        return observation.splitlines()[-1]
    return observation.rpartition(NEXT)[2] if NEXT in observation else None


def drop_refused(left: list[str]) -> None:
    """Remove the first candidate, which was tried and refused, unless no other is left."""
    if len(left) > 1:
        del left[0]


class ToolGuesser:
    """A player that calls random tools with words and numbers it has seen. It submits when all requests are done."""

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
        """Return a value that the schema allows."""
        if "enum" in schema:
            return str(self.rng.choice(schema["enum"]))
        if schema["type"] == "integer":
            numbers = [int(word) for word in self.heard if word.isdigit()]
            return self.rng.choice(numbers or list(range(1, 10)))
        return self.rng.choice(self.heard)
