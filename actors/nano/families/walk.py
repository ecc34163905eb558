"""Reach a mark on a plane in few moves; the controls may be turned about, which shows in what a move did."""

import random
import re
from collections.abc import Sequence

from actors.nano.families.base import Knobs, Player, say
from actors.nano.program import Body

EFFECTS = {"plain": (-1, -1), "reversed": (1, 1), "mirrored": (1, -1)}
"""By rule: what a move east does to how far east the mark is, and a move north to how far north."""


class Walk:
    name = "Walk"
    skills = ("spatial reasoning",)
    statement = re.compile(f"Controls are ({'|'.join(EFFECTS)})\\.")

    def knobs(self, rng: random.Random) -> Knobs:
        size = rng.randint(1, 3)
        return Knobs(
            rng.randint(2 * size, min(2 * size + 2, 6)), size, 0, rng.choice(tuple(EFFECTS)), rng.random() < 0.4
        )

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        east, north = EFFECTS[knobs.rule]
        where = "East {self.x} north {self.y}."
        return Body(
            reset='self.actions = ["north", "south", "east", "west"]\n'
            f"self.x = self.rng.choice([-1, 1]) * self.rng.randint(1, {knobs.size})\n"
            f"self.y = self.rng.choice([-1, 1]) * self.rng.randint(1, {knobs.size})",
            opening=f'f"Reach the mark.{knobs.told(f"Controls are {knobs.rule}.")} {where}"',
            step="before = abs(self.x) + abs(self.y)\n"
            f'self.x {PLUS[east]}= (action == "east") - (action == "west")\n'
            f'self.y {PLUS[north]}= (action == "north") - (action == "south")\n'
            "after = abs(self.x) + abs(self.y)",
            won="after == 0",
            reply=f"f\"{{'Nearer' if after < before else 'Farther'}}. {where}\"",
            reward="0.5 / after",
            solution=f'["east" if self.x {TOWARDS[east]} 0 else "west"] * abs(self.x)'
            f' + ["north" if self.y {TOWARDS[north]} 0 else "south"] * abs(self.y)',
        )

    def hint(self, knobs: Knobs) -> str:
        return f"Go to the mark. Controls are {knobs.rule}."

    def player(self, knobs: Knobs, informed: bool, rng: random.Random) -> Player:
        return Walker([knobs.rule] if informed else list(EFFECTS))


PLUS = {-1: "-", 1: "+"}
TOWARDS = {-1: ">", 1: "<"}


class Walker:
    """Names the controls that fit what its moves did, then moves towards the mark, first along the parallel."""

    def __init__(self, rules: list[str]) -> None:
        self.rules = rules
        self.eastwards = True

    def act(self, observation: str) -> str:
        x, y = (int(number) for number in re.findall(r"-?\d+", observation)[:2])
        if observation.startswith("Farther"):
            self.rules = [rule for rule in self.rules if self.effect(rule) != self.effect(self.rules[0])]
        self.eastwards = x != 0
        towards = (x or y) * -self.effect(self.rules[0]) > 0
        action = ("west", "east")[towards] if self.eastwards else ("south", "north")[towards]
        return say(action, f"controls {self.rules[0]}")

    def effect(self, rule: str) -> int:
        """The effect of the rule on a move along the axis in hand."""
        return EFFECTS[rule][0 if self.eastwards else 1]
