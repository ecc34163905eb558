"""One question: a direction after one turn on the spot."""

import random


class CompassTurnEnv:
    DIRECTIONS = ["north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest"]
    TURNS = {"make a quarter turn to the right": 2, "make a quarter turn to the left": -2, "turn around": 4}

    def __init__(self, max_turns: int = 1):
        self.answer = ""

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        start = rng.randrange(8)
        turn = rng.choice(list(self.TURNS))
        self.answer = self.DIRECTIONS[(start + self.TURNS[turn]) % 8]
        return (
            f"You face {self.DIRECTIONS[start]}. You {turn}. Which way do you face now?\n"
            f"Actions: {' '.join(self.DIRECTIONS)}"
        ), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        if action.strip().lower() == self.answer:
            return "Right.", 1.0, True, False, {}
        return "Wrong. You face another way.", 0.0, True, False, {}

    def solution(self) -> list[str]:
        return [self.answer]
