"""Find the lowest point of a valley by probing: the cost grows by one a step, so a cost tells the distance."""

import random
import re
from collections.abc import Sequence

from actors.nano.families.base import Knobs, Player, say
from actors.nano.program import Body


class Valley:
    name = "Valley"
    skills = ("optimization", "spatial reasoning")
    statement = re.compile(r"It is \d\.")

    def knobs(self, rng: random.Random) -> Knobs:
        turns = rng.randint(2, 3)
        return Knobs(turns, rng.randint(4 * turns, 12), rng.randint(0, 9), "slope", rng.random() < 0.4)

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        return Body(
            reset=f"self.actions = [str(n) for n in range(1, {knobs.size + 1})]\n"
            f"self.low = self.rng.randint(1, {knobs.size})",
            opening=f'"Find the lowest cost.{knobs.told(f"It is {knobs.need}.")}"',
            actions=f"1..{knobs.size}",
            step="off = abs(int(action) - self.low)",
            won="off == 0",
            reply=f'f"At {{action}} cost {{off + {knobs.need}}}."',
            reward="0.4 / (1 + off)",
            solution="[str(self.low)]",
        )

    def hint(self, knobs: Knobs) -> str:
        return f"The lowest cost is {knobs.need}. The rest is the distance."

    def player(self, knobs: Knobs, informed: bool, rng: random.Random) -> Player:
        return Prober(knobs.need if informed else None, rng)


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
        if len(self.probes) < 2:
            return (1, self.size)[len(self.probes)], "ends"
        (_, left), (_, right) = self.probes[:2]
        return min(max((self.size + 1 + left - right) // 2, 1), self.size), f"ends {left} {right}"

    def distance(self, floor: int) -> tuple[int, str]:
        if not self.probes:
            return (self.size + 1) // 2, "middle"
        place, cost = self.probes[-1]
        fitting = [p for p in range(1, self.size + 1) if all(abs(p - q) == c - floor for q, c in self.probes)]
        return self.rng.choice(fitting), f"{cost} less {floor} is {cost - floor} off {place}"
