"""The game Walk: reach a mark on a plane in few moves. The controls may be turned or mirrored."""

import random
import re
from collections.abc import Sequence
from itertools import product

from actors.nano.families.base import Player, read_offered, write_message
from actors.nano.families.game import Game, Knobs, pair_rules
from actors.nano.levels import EVERY, PLAIN
from actors.nano.program import Body

CONTROLS = {
    "plain": "nsew", "reversed": "snwe", "mirrored": "nswe", "flipped": "snew",
    "rising": "ewsn", "falling": "wens", "crossed": "ewns", "swapped": "wesn",
}  # fmt: skip
"""By rule: the direction of each action."""
REACHES = (
    ((1, 1), (1, 2)), ((1, 2), (1, 3)),
    ((1, 1), (1, 2), (2, 2), (1, 3)), ((1, 2), (1, 3), (2, 2), (2, 3)), ((1, 3), (2, 2), (2, 3), (3, 3)),
    ((2, 2), (2, 3), (3, 3), (1, 4)),
)  # fmt: skip
"""By level: the least and greatest distance of the mark in each direction."""
RULES = {rule: f'"{ways}"' for rule, ways in CONTROLS.items()}


class Walk(Game):
    name = "Walk"
    skills = ("spatial reasoning",)
    statement = re.compile(f"Controls are ({'|'.join(CONTROLS)})\\.")
    strategy = "Go to the mark."
    sentence = "Controls are {}."
    rules = RULES
    pairs = pair_rules(CONTROLS)

    def __init__(self) -> None:
        self.spaces = [self.space(level) for level in EVERY]

    def space(self, level: int) -> list[Knobs]:
        """Return all parameters of a level. `need` is the mark's least distance, `size` its greatest."""
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
            f"self.ways = {self.value(knobs)}\n"
            f"self.x = self.rng.choice([-1, 1]) * self.rng.randint({knobs.need}, {knobs.size})\n"
            f"self.y = self.rng.choice([-1, 1]) * self.rng.randint({knobs.need}, {knobs.size})",
            opening=f'f"Reach the mark. {self.word_rule(knobs)} {where}"',
            step="before = abs(self.x) + abs(self.y)\n"
            "way = self.ways[self.actions.index(action)]\n"
            'self.x += (way == "w") - (way == "e")\n'
            'self.y += (way == "s") - (way == "n")\n'
            "after = abs(self.x) + abs(self.y)",
            won="after == 0",
            reply=f"f\"{{'Nearer' if after < before else 'Farther'}}. {where}\"",
            reward="0.5 / after",
            solution="[self.actions[self.ways.index(way)] for way in"
            ' ("e" if self.x > 0 else "w") * abs(self.x) + ("n" if self.y > 0 else "s") * abs(self.y)]',
        )

    def follower(self, knobs: Knobs, rule: str, rng: random.Random) -> Player:
        return Walker(rule)


class Walker:
    """A player that states the controls, then moves towards the mark: first east or west, then north or south."""

    def __init__(self, rule: str) -> None:
        self.rule = rule

    def act(self, observation: str) -> str:
        x, y = (int(number) for number in re.findall(r"-?\d+", observation)[:2])
        way = ("e" if x > 0 else "w") if x else "n" if y > 0 else "s"
        return write_message(read_offered(observation)[CONTROLS[self.rule].index(way)], f"controls {self.rule}")
