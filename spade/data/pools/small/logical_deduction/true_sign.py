"""One question: a text names the one door that is safe."""

import random


class TrueSignEnv:
    COLOURS = ["red", "blue", "green", "white", "black", "yellow", "brown", "grey"]

    def __init__(self, max_turns: int = 1):
        self.safe = ""

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        self.safe = rng.choice(self.COLOURS)
        return f"The safe door is {self.safe}. Which door is safe?\nActions: {' '.join(self.COLOURS)}", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        said = action.strip(" .").lower()
        if said == self.safe:
            return "The door opens.", 1.0, True, False, {}
        return "That door is a trap.", 0.1 * (said in self.COLOURS), True, False, {}

    def solution(self) -> list[str]:
        return [self.safe]
