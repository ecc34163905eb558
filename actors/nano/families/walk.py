"""Reach a mark on a plane in few moves; the controls may be turned about, which shows in what a move did."""

import random
import re
from collections.abc import Sequence
from itertools import product

from actors.nano.families.base import Knobs, Player, say
from actors.nano.levels import EVERY, PRINTED, draw_by_level
from actors.nano.program import Body

CONTROLS = {
    "plain": (("east", "west", -1), ("north", "south", -1)),
    "reversed": (("east", "west", 1), ("north", "south", 1)),
    "mirrored": (("east", "west", 1), ("north", "south", -1)),
    "swapped": (("north", "south", -1), ("east", "west", -1)),
}
"""By rule, for how far east and how far north the mark is: two moves; the first adds this to it, the other takes it."""
REACHES = (((1, 1), (1, 2)), ((1, 2), (1, 3)), ((1, 2), (1, 3)), ((1, 3), (1, 4)), ((3, 3), (4, 4)), ((4, 4), (5, 5)))
SPARES = ((0, 1, 2), (0, 1, 2), (0, 1, 2), (0, 1, 2), (0, 1, 2), (0, 1))
KINDS = (2, 3, 3, 4, 4, 4)
"""By level: the least and most that the mark is away in each direction, the moves beyond the most that it can take,
and how many of the controls can be the rule.
"""
SIGNS = {-1: "-", 1: "+"}
TOWARDS = {-1: ">", 1: "<"}


def space(level: int) -> list[Knobs]:
    """All parameters of a level; `need` is the least that the mark is away, `size` the most."""
    return [
        Knobs(level, 2 * most + spare, most, least, rule, printed)
        for (least, most), spare, rule, printed in product(
            REACHES[level - 1], SPARES[level - 1], tuple(CONTROLS)[: KINDS[level - 1]], PRINTED[level - 1]
        )
    ]


class Walk:
    name = "Walk"
    skills = ("spatial reasoning",)
    statement = re.compile(f"Controls are ({'|'.join(CONTROLS)})\\.")
    spaces = tuple(space(level) for level in EVERY)

    def knobs(self, rng: random.Random) -> Knobs:
        return draw_by_level(rng, self.spaces)

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        (east, west, east_adds), (north, south, north_adds) = CONTROLS[knobs.rule]
        where = "East {self.x} north {self.y}."
        return Body(
            reset='self.actions = ["north", "south", "east", "west"]\n'
            f"self.x = self.rng.choice([-1, 1]) * self.rng.randint({knobs.need}, {knobs.size})\n"
            f"self.y = self.rng.choice([-1, 1]) * self.rng.randint({knobs.need}, {knobs.size})",
            opening=f'f"Reach the mark.{knobs.told(f"Controls are {knobs.rule}.")} {where}"',
            step="before = abs(self.x) + abs(self.y)\n"
            f'self.x {SIGNS[east_adds]}= (action == "{east}") - (action == "{west}")\n'
            f'self.y {SIGNS[north_adds]}= (action == "{north}") - (action == "{south}")\n'
            "after = abs(self.x) + abs(self.y)",
            won="after == 0",
            reply=f"f\"{{'Nearer' if after < before else 'Farther'}}. {where}\"",
            reward="0.5 / after",
            solution=f'["{east}" if self.x {TOWARDS[east_adds]} 0 else "{west}"] * abs(self.x)'
            f' + ["{north}" if self.y {TOWARDS[north_adds]} 0 else "{south}"] * abs(self.y)',
        )

    def hint(self, knobs: Knobs) -> str:
        return f"Go to the mark. Controls are {knobs.rule}."

    def player(self, knobs: Knobs, informed: bool, rng: random.Random) -> Player:
        return Walker([knobs.rule] if informed else list(CONTROLS)[: KINDS[knobs.level - 1]], rng)


class Walker:
    """Names the controls that fit what its moves did, then moves towards the mark, first along the parallel."""

    def __init__(self, rules: list[str], rng: random.Random) -> None:
        self.rules = rng.sample(rules, len(rules))
        self.foreseen: dict[str, tuple[int, int]] = {}

    def act(self, observation: str) -> str:
        x, y = (int(number) for number in re.findall(r"-?\d+", observation)[:2])
        self.rules = [rule for rule in self.rules if self.foreseen.get(rule, (x, y)) == (x, y)]
        first, second, adds = CONTROLS[self.rules[0]][0 if x else 1]
        action = first if (x or y) * adds < 0 else second
        self.foreseen = {rule: moved(rule, action, x, y) for rule in self.rules}
        return say(action, f"controls {self.rules[0]}")


def moved(rule: str, action: str, x: int, y: int) -> tuple[int, int]:
    """The mark's place after a move under the controls `rule`."""
    east, north = (adds * ((action == first) - (action == second)) for first, second, adds in CONTROLS[rule])
    return x + east, y + north
