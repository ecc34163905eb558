"""A number moves on by steps that take turns, modulo ten or twenty: read them off the answers and foretell the next."""

import random
import re
from collections.abc import Sequence
from itertools import product

from actors.nano.families.base import Knobs, Player, offered, say
from actors.nano.levels import EVERY, PRINTED, draw_by_level
from actors.nano.program import Body

SHAPES = ((1, 10, (1, 2)), (1, 20, (2, 3)), (2, 10, (2, 3)), (2, 20, (3, 4)), (3, 10, (3, 4)), (3, 20, (4, 5)))
"""By level: how many steps take turns, modulo what, and how often the next number must be foretold."""


def space(level: int) -> list[Knobs]:
    """All parameters of a level; `size` is the modulus, and `rule` the steps."""
    cycle, modulus, needs = SHAPES[level - 1]
    return [
        Knobs(level, need + spare, modulus, need, " ".join(map(str, steps)), printed)
        for steps in product(range(1, 10), repeat=cycle)
        for need, spare, printed in product(needs, (cycle - 1, cycle), PRINTED[level - 1])
        if len(set(steps)) == cycle
    ]


class Steps:
    name = "Steps"
    skills = ("mathematical reasoning", "pattern recognition")
    statement = re.compile(r"It adds \d")
    spaces = tuple(space(level) for level in EVERY)

    def knobs(self, rng: random.Random) -> Knobs:
        return draw_by_level(rng, self.spaces)

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        steps = knobs.rule.split()
        return Body(
            reset=f"self.actions = [str(n) for n in range({knobs.size})]\n"
            f"self.steps = [{', '.join(steps)}]\n"
            f"self.value = self.rng.randrange({knobs.size})\nself.hits = 0",
            opening=f'f"It is {{self.value}}. Steps: {len(steps)}. What is next?{knobs.told(self.hint(knobs))}"',
            actions=f"0..{knobs.size - 1}",
            step=f"self.value = (self.value + self.steps[(self.turn - 1) % {len(steps)}]) % {knobs.size}\n"
            "self.hits += action == str(self.value)",
            won=f"self.hits == {knobs.need}",
            reply='f"It is {self.value}."',
            reward=f"self.hits / {knobs.need + 1}",
            solution=f"[str((self.value + sum((self.steps * n)[:n])) % {knobs.size})"
            f" for n in range(1, {knobs.need + 1})]",
        )

    def hint(self, knobs: Knobs) -> str:
        return f"It adds {', then '.join(knobs.rule.split())}."

    def player(self, knobs: Knobs, informed: bool, rng: random.Random) -> Player:
        return Adder([int(step) for step in knobs.rule.split()], informed, rng)


class Adder:
    """Adds the steps in turn; uninformed, it guesses each once and then adds the differences that it saw."""

    def __init__(self, steps: list[int], informed: bool, rng: random.Random) -> None:
        self.steps = steps
        self.informed = informed
        self.rng = rng
        self.values: list[int] = []

    def act(self, observation: str) -> str:
        found = re.search(r"It is (\d+)", observation)
        modulus = len(offered(observation)) or 1
        self.values.append(int(found[1]) if found else 0)
        cycle, turn, value = len(self.steps), len(self.values) - 1, self.values[-1]
        seen = [] if self.informed else [(b - a) % modulus for a, b in zip(self.values, self.values[1:], strict=False)]
        step = self.steps[turn % cycle] if self.informed else seen[-cycle] if turn >= cycle else self.rng.randint(1, 9)
        thought = f"found {' '.join(map(str, seen[-cycle:]))} " if seen else ""
        return say(str((value + step) % modulus), f"{thought}add {step} to {value}")
