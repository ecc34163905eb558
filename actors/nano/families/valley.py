"""Find the lowest point of a valley by probing: the cost grows by one with every step away from it."""

import random
import re
from collections.abc import Sequence
from itertools import product

from actors.nano.families.base import Knobs, Player, say
from actors.nano.levels import EVERY, PRINTED, draw_by_level
from actors.nano.program import Body

SIZES = (range(7, 10), range(10, 15), range(5, 7), range(7, 9), range(9, 11), range(11, 14))
"""By level: how many places there are."""


def space(level: int) -> list[Knobs]:
    """All parameters of a level; `rule` is the lowest cost, or the most that it can be."""
    printed = PRINTED[level - 1]
    return [
        Knobs(level, turns, size, 1, str(cost), printed)
        for size, cost, turns in product(SIZES[level - 1], range(1, 10), (3,) if printed else (3, 4))
    ]


class Valley:
    name = "Valley"
    skills = ("optimization", "spatial reasoning")
    statement = re.compile(r"It is \d\.")
    spaces = tuple(space(level) for level in EVERY)

    def knobs(self, rng: random.Random) -> Knobs:
        return draw_by_level(rng, self.spaces)

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        drawn = knobs.rule if knobs.printed else f"self.rng.randint(0, {knobs.rule})"
        return Body(
            reset=f"self.actions = [str(n) for n in range(1, {knobs.size + 1})]\n"
            f"self.low = self.rng.randint(1, {knobs.size})\nself.floor = {drawn}",
            opening=f'"Find the lowest cost.{knobs.told(f"It is {knobs.rule}.")}"',
            actions=f"1..{knobs.size}",
            step="off = abs(int(action) - self.low)",
            won="off == 0",
            reply='f"At {action} cost {off + self.floor}."',
            reward="0.4 / (1 + off)",
            solution="[str(self.low)]",
        )

    def hint(self, knobs: Knobs) -> str:
        return f"The lowest cost is {knobs.rule}." if knobs.printed else "Probe both ends and compare them."

    def player(self, knobs: Knobs, informed: bool, rng: random.Random) -> Player:
        return Prober(int(knobs.rule) if knobs.printed else None, rng)


class Prober:
    """Told the floor, turns a cost into a distance; else probes both ends, and their difference tells the place."""

    def __init__(self, floor: int | None, rng: random.Random) -> None:
        self.floor = floor
        self.rng = rng
        self.size = 0
        self.probes: list[tuple[int, int]] = []

    def act(self, observation: str) -> str:
        numbers = [int(number) for number in re.findall(r"\d+", observation)]
        self.size = numbers[-1]
        if observation.startswith("At"):
            self.probes.append((numbers[0], numbers[1]))
        place, thought = self.ends() if self.floor is None else self.distance(self.floor)
        return say(str(place), thought)

    def ends(self) -> tuple[int, str]:
        """The low end, the high end, then the place that both costs tell."""
        if len(self.probes) < 2:
            return (1, self.size)[len(self.probes)], "ends"
        (_, left), (_, right) = self.probes[:2]
        doubled = self.size + 1 + left - right
        return doubled // 2, f"{left} less {right} is {left - right} from {self.size + 1} is {doubled} half"

    def distance(self, floor: int) -> tuple[int, str]:
        """The middle, then a place that fits all costs."""
        if not self.probes:
            return (self.size + 1) // 2, "middle"
        place, cost = self.probes[-1]
        fitting = [p for p in range(1, self.size + 1) if all(abs(p - q) + floor == c for q, c in self.probes)]
        return self.rng.choice(fitting), f"{cost} less {floor} is {cost - floor} off {place}"
