"""Find the lowest point of a valley by probing: the cost grows by the same with every step away from it."""

import random
import re
from collections.abc import Sequence
from itertools import product

from actors.nano.families.base import Knobs, Player, say
from actors.nano.levels import EVERY, PRINTED, draw_by_level
from actors.nano.program import Body

SIZES = (range(9, 12), range(12, 16), range(16, 21), range(21, 27), range(27, 34), range(34, 43))
SLOPES = (("1",), ("1",), ("1",), ("1", "2"), ("1", "2"), ("1", "2", "3"))
"""By level: how many places there are, and what a step away can add to the cost."""


def space(level: int) -> list[Knobs]:
    """All parameters of a level; `need` is the lowest cost, and `rule` what a step adds."""
    return [
        Knobs(level, 3, size, floor, rule, printed)
        for size, floor, rule, printed in product(SIZES[level - 1], range(10), SLOPES[level - 1], PRINTED[level - 1])
    ]


class Valley:
    name = "Valley"
    skills = ("optimization", "spatial reasoning")
    statement = re.compile(r"It is \d, and \d more a step\.")
    spaces = tuple(space(level) for level in EVERY)

    def knobs(self, rng: random.Random) -> Knobs:
        return draw_by_level(rng, self.spaces)

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        told = knobs.told(f"It is {knobs.need}, and {knobs.rule} more a step.")
        return Body(
            reset=f"self.actions = [str(n) for n in range(1, {knobs.size + 1})]\n"
            f"self.low = self.rng.randint(1, {knobs.size})",
            opening=f'"Find the lowest cost.{told}"',
            actions=f"1..{knobs.size}",
            step="off = abs(int(action) - self.low)",
            won="off == 0",
            reply=f'f"At {{action}} cost {{off * {knobs.rule} + {knobs.need}}}."',
            reward="0.4 / (1 + off)",
            solution="[str(self.low)]",
        )

    def hint(self, knobs: Knobs) -> str:
        return f"The lowest cost is {knobs.need}. A step adds {knobs.rule}."

    def player(self, knobs: Knobs, informed: bool, rng: random.Random) -> Player:
        slope = int(knobs.rule if informed else rng.choice(SLOPES[knobs.level - 1]))
        return Prober(knobs.need if informed else None, slope, rng)


class Prober:
    """Told the floor, turns a cost into a distance; else probes both ends, and their difference tells the place."""

    def __init__(self, floor: int | None, slope: int, rng: random.Random) -> None:
        self.floor = floor
        self.slope = slope
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
        if len(self.probes) < 2:
            return (1, self.size)[len(self.probes)], "ends"
        (_, left), (_, right) = self.probes[:2]
        place = (self.size + 1 + (left - right) // self.slope) // 2
        return min(max(place, 1), self.size), f"ends {left} {right} by {self.slope}"

    def distance(self, floor: int) -> tuple[int, str]:
        if not self.probes:
            return (self.size + 1) // 2, "middle"
        place, cost = self.probes[-1]
        fitting = [p for p in range(1, self.size + 1) if all(self.cost(p, q, floor) == c for q, c in self.probes)]
        rise = cost - floor
        return self.rng.choice(fitting), f"{cost} less {floor} is {rise} so {rise // self.slope} off {place}"

    def cost(self, low: int, place: int, floor: int) -> int:
        """The cost at a place if the lowest is at `low`."""
        return abs(low - place) * self.slope + floor
