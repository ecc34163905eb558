"""The game Steps: a number moves by a step, modulo a round number. Predict the next number."""

import random
import re
from collections.abc import Sequence
from itertools import product

from actors.nano.families.base import Player, write_message
from actors.nano.families.game import Game, Knobs
from actors.nano.levels import EVERY, PLAIN
from actors.nano.program import Body

ADDED = {str(step): str(step) for step in range(1, 10)}
SHAPES = (
    ((10,), (1, 2)), ((20,), (2, 3)), *(((10, 20), needs) for needs in ((1, 2), (1, 2), (2, 3), (2, 3)))
)  # fmt: skip
"""By level: the possible moduli, and how often the next number must be predicted."""


class Steps(Game):
    name = "Steps"
    skills = ("mathematical reasoning", "pattern recognition")
    statement = re.compile(r"It adds \d")
    strategy = "Add to the number."
    sentence = "It adds {}."
    rules = ADDED
    pairs = (("2", "7"), ("3", "8"), ("4", "9"), ("1", "6"))

    def __init__(self) -> None:
        self.spaces = [self.space(level) for level in EVERY]

    def space(self, level: int) -> list[Knobs]:
        """Return all parameters of a level. `size` is the modulus."""
        moduli, needs = SHAPES[level - 1]
        return [
            Knobs(level, need + spare, modulus, need, rules)
            for rules, modulus, need, spare in product(
                self.choices(level, tuple(ADDED)), moduli, needs, (0, 1) if level <= PLAIN else (0,)
            )
        ]

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        return Body(
            reset=f"self.actions = [str(n) for n in range({knobs.size})]\n"
            f"self.add = {self.value(knobs)}\n"
            f"self.value = self.rng.randrange({knobs.size})\nself.hits = 0",
            opening=f'f"It is {{self.value}}. What is next? {self.word_rule(knobs)}"',
            actions=f"0..{knobs.size - 1}",
            step=f"self.value = (self.value + self.add) % {knobs.size}\nself.hits += action == str(self.value)",
            won=f"self.hits == {knobs.need}",
            reply='f"It is {self.value}."',
            reward="self.hits / (self.hits + 1)",
            solution=f"[str((self.value + n * self.add) % {knobs.size}) for n in range(1, {knobs.need + 1})]",
        )

    def follower(self, knobs: Knobs, rule: str, rng: random.Random) -> Player:
        return Adder(int(rule), knobs.size)


class Adder:
    """A player that adds the step to the number."""

    def __init__(self, step: int, modulus: int) -> None:
        self.step = step
        self.modulus = modulus

    def act(self, observation: str) -> str:
        value = int(re.findall(r"\d+", observation)[0])
        return write_message(str((value + self.step) % self.modulus), f"add {self.step} to {value}")
