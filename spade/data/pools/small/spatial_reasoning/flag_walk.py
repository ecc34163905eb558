"""Several turns: walk to a flag on a grid."""

import random


class FlagWalkEnv:
    STEPS = {"right": (1, 0), "left": (-1, 0), "up": (0, 1), "down": (0, -1)}

    def __init__(self, max_turns: int = 4):
        self.max_turns = max_turns
        self.turn = 0
        self.start = 0
        self.away = (0, 0)  # steps to the right and up

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        self.turn = 0
        self.away = rng.choice([(x, y) for x in range(-2, 3) for y in range(-2, 3) if 2 <= abs(x) + abs(y) <= 3])
        self.start = self.distance()
        return self.view("You look for a flag."), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        self.turn += 1
        out_of_turns = self.turn >= self.max_turns
        way = action.strip(" .").lower()
        if way not in self.STEPS:
            return self.view("That is no way to go."), 0.0, False, out_of_turns, {}
        self.away = (self.away[0] - self.STEPS[way][0], self.away[1] - self.STEPS[way][1])
        if self.away == (0, 0):
            return "You reach the flag.", 1.0, True, False, {}
        if self.distance() > self.start:
            return "You walk away from the flag and are lost.", 0.0, True, False, {}
        return self.view(f"You go {way}."), 0.5 * (1 - self.distance() / self.start), False, out_of_turns, {}

    def distance(self) -> int:
        return abs(self.away[0]) + abs(self.away[1])

    def ways(self) -> list[str]:
        """The steps that are left to the flag."""
        x, y = self.away
        return ["right" if x > 0 else "left"] * abs(x) + ["up" if y > 0 else "down"] * abs(y)

    def view(self, happened: str) -> str:
        parts = [f"{self.ways().count(way)} {way}" for way in self.STEPS if way in self.ways()]
        return f"{happened} The flag is {' and '.join(parts)} away. Which way?\nActions: {' '.join(self.STEPS)}"

    def solution(self) -> list[str]:
        return self.ways()
