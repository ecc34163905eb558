"""The game Valley: find the lowest point by probing. The cost grows by one with every step away from it."""

import random
import re
from collections.abc import Sequence
from itertools import product

from actors.nano.families.base import Player, write_message
from actors.nano.families.game import Game, Knobs
from actors.nano.levels import EVERY
from actors.nano.program import Body

COSTS = {str(cost): str(cost) for cost in range(1, 10)}
SIZES = (range(7, 10), range(9, 12), range(5, 9), range(6, 10), range(7, 11), range(8, 12))
"""By level: the possible numbers of places."""
TURNS = ((2, 3), (2,), (2,), (2,), (2,), (2,))


class Valley(Game):
    name = "Valley"
    skills = ("optimization", "spatial reasoning")
    statement = re.compile(r"It is \d\.")
    strategy = "Find how far it is from 1."
    sentence = "It is {}."
    rules = COSTS
    pairs = (("1", "5"), ("2", "6"), ("3", "7"), ("4", "8"))

    def __init__(self) -> None:
        self.spaces = [self.space(level) for level in EVERY]

    def space(self, level: int) -> list[Knobs]:
        """Return all parameters of a level. `size` is the number of places, and the rule gives the lowest cost."""
        return [
            Knobs(level, turns, size, 1, rules)
            for size, rules, turns in product(SIZES[level - 1], self.choices(level, tuple(COSTS)), TURNS[level - 1])
        ]

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        return Body(
            reset=f"self.actions = [str(n) for n in range(1, {knobs.size + 1})]\n"
            f"self.low = self.rng.randint(1, {knobs.size})\nself.floor = {self.value(knobs)}",
            opening=f'f"Find the lowest cost. {self.word_rule(knobs)}"',
            actions=f"1..{knobs.size}",
            step="off = abs(int(action) - self.low)",
            won="off == 0",
            reply='f"At {action} cost {off + self.floor}."',
            reward="0.4 / (1 + off)",
            solution="[str(self.low)]",
        )

    def follower(self, knobs: Knobs, rule: str, rng: random.Random) -> Player:
        return Prober(int(rule), knobs.size)


class Prober:
    """A player that probes the first place. The cost above the lowest cost tells the distance."""

    def __init__(self, floor: int, size: int) -> None:
        self.floor = floor
        self.size = size

    def act(self, observation: str) -> str:
        found = re.match(r"At (\d+) cost (\d+)", observation)
        if found is None:
            return write_message("1", "first")
        place, cost = int(found[1]), int(found[2])
        # A player that assumes the wrong rule may compute a place that does not exist.
        there = min(max(place + cost - self.floor, 1), self.size)
        return write_message(str(there), f"{cost} less {self.floor} is {cost - self.floor} off {place}")
