"""One question: only one door is safe, and the sign names it."""

import random


class TrueSignEnv:
    COLOURS = ["red", "blue", "green", "white", "black", "yellow", "brown", "grey"]

    def __init__(self, max_turns: int = 1):
        self.safe = ""

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        self.safe = rng.choice(self.COLOURS)
        return (
            f"There are eight doors. The sign says: open the {self.safe} door. The sign is true.\n"
            "Which door do you open?\n"
            f"Actions: {' '.join(self.COLOURS)}"
        ), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        if action.strip().lower() == self.safe:
            return "The door opens.", 1.0, True, False, {}
        return "That door is a trap.", 0.0, True, False, {}

    def solution(self) -> list[str]:
        return [self.safe]
