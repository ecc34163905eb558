"""A number moves on by steps that take turns, modulo some round number: read them off the answers and foretell it."""

import random
import re
from collections.abc import Sequence
from itertools import product

from actors.nano.families.base import Knobs, Player, say
from actors.nano.levels import EVERY, PRINTED, draw_by_level
from actors.nano.program import Body

SHAPES = ((1, 10, (1, 2)), (1, 20, (2, 3)), (1, 10, (1, 2)), (1, 20, (2, 3)), (2, 10, (2, 3)), (2, 20, (2, 3)))
"""By level: how many steps take turns, modulo what, and how often the next number must be foretold."""
MOST = range(4, 10)
"""The largest steps that an instance may draw."""


def space(level: int) -> list[Knobs]:
    """All parameters of a level; `size` is the modulus, `rule` the step, or the most that one can be."""
    cycle, modulus, needs = SHAPES[level - 1]
    printed = PRINTED[level - 1]
    rules, spares = (range(1, 10), (0, 1)) if printed else (MOST, (cycle, cycle + 1))
    return [
        Knobs(level, need + spare, modulus, need, str(rule), printed)
        for rule, need, spare in product(rules, needs, spares)
    ]


class Steps:
    name = "Steps"
    skills = ("mathematical reasoning", "pattern recognition")
    statement = re.compile(r"It adds \d")
    spaces = tuple(space(level) for level in EVERY)

    def knobs(self, rng: random.Random) -> Knobs:
        return draw_by_level(rng, self.spaces)

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        cycle, rule = SHAPES[knobs.level - 1][0], knobs.rule
        steps = f"[{rule}]" if knobs.printed else f"[self.rng.randint(1, {rule}) for _ in range({cycle})]"
        return Body(
            reset=f"self.actions = [str(n) for n in range({knobs.size})]\n"
            f"self.steps = {steps}\n"
            f"self.value = self.rng.randrange({knobs.size})\nself.hits = 0",
            opening=f'f"It is {{self.value}}. Steps: {cycle}. What is next?{knobs.told(self.hint(knobs))}"',
            actions=f"0..{knobs.size - 1}",
            step=f"self.value = (self.value + self.steps[(self.turn - 1) % {cycle}]) % {knobs.size}\n"
            "self.hits += action == str(self.value)",
            won=f"self.hits == {knobs.need}",
            reply='f"It is {self.value}."',
            reward=f"self.hits / {knobs.need + 1}",
            solution=f"[str((self.value + sum((self.steps * n)[:n])) % {knobs.size})"
            f" for n in range(1, {knobs.need + 1})]",
        )

    def hint(self, knobs: Knobs) -> str:
        return f"It adds {knobs.rule}." if knobs.printed else f"Find what it adds, up to {knobs.rule}."

    def player(self, knobs: Knobs, informed: bool, rng: random.Random) -> Player:
        cycle, modulus, _ = SHAPES[knobs.level - 1]
        if knobs.printed:
            return Adder(cycle, modulus, [int(knobs.rule)], rng)
        return Adder(cycle, modulus, range(1, (int(knobs.rule) if informed else max(MOST)) + 1), rng)


class Adder:
    """Guesses each step once among `steps`, if there are several, and then adds the differences that it saw."""

    def __init__(self, cycle: int, modulus: int, steps: Sequence[int], rng: random.Random) -> None:
        self.cycle = cycle
        self.modulus = modulus
        self.steps = steps
        self.rng = rng
        self.values: list[int] = []

    def act(self, observation: str) -> str:
        numbers = re.findall(r"\d+", observation)
        self.values.append(int(numbers[0]))
        before = self.values[-1 - self.cycle :]
        if len(before) > self.cycle:
            step = (before[1] - before[0]) % self.modulus
            found = f"from {before[0]} to {before[1]} "
        else:
            step, found = self.rng.choice(self.steps), ""
        if len(self.steps) == 1:
            step, found = self.steps[0], ""
        return say(str((before[-1] + step) % self.modulus), f"{found}add {step} to {before[-1]}")
