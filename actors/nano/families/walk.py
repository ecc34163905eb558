"""Reach a mark on a plane in few moves; the controls may be turned about, which shows in what a move did."""

import random
import re
from collections.abc import Sequence
from itertools import combinations, product

from actors.nano.families.base import Knobs, Player, say
from actors.nano.levels import EVERY, PRINTED, draw_by_level
from actors.nano.program import Body

CONTROLS = {"plain": (-1, -1), "reversed": (1, 1), "mirrored": (1, -1), "flipped": (-1, 1)}
"""By rule: what a move east adds to how far east the mark is, and what a move north adds to how far north."""
RULES = (
    ("plain", "reversed"),
    tuple(CONTROLS),
    *(tuple(map(", ".join, combinations(CONTROLS, count))) for count in (2, 2, 3, 3)),
)
REACHES = (((1, 1), (1, 2)), ((1, 2), (1, 3)), ((1, 1), (1, 2)), ((1, 2), (1, 3)), ((2, 3), (2, 4)), ((3, 4), (3, 5)))
SPARES = ((0, 1, 2), (0, 1, 2), (2, 3), (2, 3), (1, 2, 3), (1, 2))
"""By level: the rules, or what an instance draws its own from; the least and most that the mark is away in each
direction; the moves beyond the most that it can take.
"""


def space(level: int) -> list[Knobs]:
    """All parameters of a level; `need` is the least that the mark is away, `size` the most."""
    return [
        Knobs(level, 2 * most + spare, most, least, rule, PRINTED[level - 1])
        for (least, most), spare, rule in product(REACHES[level - 1], SPARES[level - 1], RULES[level - 1])
    ]


class Walk:
    name = "Walk"
    skills = ("spatial reasoning",)
    statement = re.compile(f"Controls are ({'|'.join(CONTROLS)})\\.")
    spaces = tuple(space(level) for level in EVERY)

    def knobs(self, rng: random.Random) -> Knobs:
        return draw_by_level(rng, self.spaces)

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        signs = [f"{CONTROLS[rule]}" for rule in knobs.rule.split(", ")]
        drawn = signs[0] if knobs.printed else f"self.rng.choice([{', '.join(signs)}])"
        where = "East {self.x} north {self.y}."
        return Body(
            reset='self.actions = ["north", "south", "east", "west"]\n'
            f"self.x = self.rng.choice([-1, 1]) * self.rng.randint({knobs.need}, {knobs.size})\n"
            f"self.y = self.rng.choice([-1, 1]) * self.rng.randint({knobs.need}, {knobs.size})\n"
            f"self.east, self.north = {drawn}",
            opening=f'f"Reach the mark.{knobs.told(f"Controls are {knobs.rule}.")} {where}"',
            step="before = abs(self.x) + abs(self.y)\n"
            'self.x += self.east * ((action == "east") - (action == "west"))\n'
            'self.y += self.north * ((action == "north") - (action == "south"))\n'
            "after = abs(self.x) + abs(self.y)",
            won="after == 0",
            reply=f"f\"{{'Nearer' if after < before else 'Farther'}}. {where}\"",
            reward="0.5 / after",
            solution='["east" if self.x * self.east < 0 else "west"] * abs(self.x)'
            ' + ["north" if self.y * self.north < 0 else "south"] * abs(self.y)',
        )

    def hint(self, knobs: Knobs) -> str:
        return f"Go to the mark. Controls are {knobs.rule.replace(', ', ' or ')}."

    def player(self, knobs: Knobs, informed: bool, rng: random.Random) -> Player:
        return Walker(knobs.rule.split(", ") if informed else list(CONTROLS), rng)


class Walker:
    """Names the controls that fit what its moves did, then moves towards the mark, first along the parallel."""

    def __init__(self, rules: list[str], rng: random.Random) -> None:
        self.rules = rng.sample(rules, len(rules))
        self.foreseen: dict[str, tuple[int, int]] = {}

    def act(self, observation: str) -> str:
        x, y = (int(number) for number in re.findall(r"-?\d+", observation)[:2])
        self.rules = [rule for rule in self.rules if self.foreseen.get(rule, (x, y)) == (x, y)]
        east, north = CONTROLS[self.rules[0]]
        action = ("east" if x * east < 0 else "west") if x else "north" if y * north < 0 else "south"
        self.foreseen = {rule: moved(rule, action, x, y) for rule in self.rules}
        return say(action, f"controls {self.rules[0]}")


def moved(rule: str, action: str, x: int, y: int) -> tuple[int, int]:
    """The mark's place after a move under the controls `rule`."""
    east, north = CONTROLS[rule]
    return (
        x + east * ((action == "east") - (action == "west")),
        y + north * ((action == "north") - (action == "south")),
    )
