"""Reach a mark on a plane in few moves, by controls that may be turned about."""

import random
import re
from collections.abc import Sequence
from itertools import product

from actors.nano.families.base import Player, say
from actors.nano.families.game import Game, Knobs
from actors.nano.levels import EVERY, PLAIN
from actors.nano.program import Body

CONTROLS = {"plain": (-1, -1), "reversed": (1, 1), "mirrored": (1, -1), "flipped": (-1, 1)}
"""By rule: what a move east adds to how far east the mark is, and what a move north adds to how far north."""
VALUES = {rule: f"{east}, {north}" for rule, (east, north) in CONTROLS.items()}
REACHES = (
    ((1, 1), (1, 2)), ((1, 2), (1, 3)),
    ((1, 1), (1, 2), (2, 2)), ((1, 2), (1, 3), (2, 2)), ((1, 3), (2, 2), (2, 3)), ((2, 2), (2, 3), (3, 3)),
)  # fmt: skip
"""By level: the least and most that the mark is away in each direction."""


class Walk(Game):
    name = "Walk"
    skills = ("spatial reasoning",)
    statement = re.compile(f"Controls are ({'|'.join(CONTROLS)})\\.")
    strategy = "Go to the mark."
    sentence = "Controls are {}."
    rules = VALUES
    meant = tuple(CONTROLS)
    middle = "r"

    def __init__(self) -> None:
        self.spaces = [self.space(level) for level in EVERY]

    def space(self, level: int) -> list[Knobs]:
        """All parameters of a level; `need` is the least that the mark is away, `size` the most."""
        plain = tuple(CONTROLS)[: 2 * level]
        return [
            Knobs(level, 2 * most + spare, most, least, rules)
            for (least, most), spare, rules in product(
                REACHES[level - 1], (0, 1, 2) if level <= PLAIN else (0,), self.choices(level, plain)
            )
        ]

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        where = "East {self.x} north {self.y}."
        return Body(
            reset='self.actions = ["north", "south", "east", "west"]\n'
            f"self.x = self.rng.choice([-1, 1]) * self.rng.randint({knobs.need}, {knobs.size})\n"
            f"self.y = self.rng.choice([-1, 1]) * self.rng.randint({knobs.need}, {knobs.size})\n"
            f"{self.drawn(knobs, 'self.east, self.north')}",
            opening=f'f"Reach the mark. {self.told(knobs)} {where}"',
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

    def follower(self, knobs: Knobs, rule: str, rng: random.Random) -> Player:
        return Walker(rule)


class Walker:
    """Names the controls, then moves towards the mark, first along the parallel."""

    def __init__(self, rule: str) -> None:
        self.rule = rule

    def act(self, observation: str) -> str:
        x, y = (int(number) for number in re.findall(r"-?\d+", observation)[:2])
        east, north = CONTROLS[self.rule]
        action = ("east" if x * east < 0 else "west") if x else "north" if y * north < 0 else "south"
        return say(action, f"controls {self.rule}")
