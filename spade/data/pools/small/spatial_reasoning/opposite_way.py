"""One question: the opposite of a direction."""

import random


class OppositeWayEnv:
    WAYS = ["north", "south", "east", "west", "left", "right", "up", "down"]  # in pairs

    def __init__(self, max_turns: int = 1):
        self.answer = ""

    def reset(self, seed: int) -> tuple[str, dict]:
        place = random.Random(seed).randrange(8)
        self.answer = self.WAYS[place + 1 if place % 2 == 0 else place - 1]
        return f"Which way is the opposite of {self.WAYS[place]}?\nActions: {' '.join(self.WAYS)}", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        said = action.strip(" .").lower()
        if said == self.answer:
            return "Right.", 1.0, True, False, {}
        return "Wrong. You look another way.", 0.1 * (said in self.WAYS), True, False, {}

    def solution(self) -> list[str]:
        return [self.answer]
