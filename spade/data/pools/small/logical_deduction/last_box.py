"""One question: the coin is in the one box that is left when all others are ruled out."""

import random


class LastBoxEnv:
    BOXES = ["A", "B", "C", "D", "E", "F"]

    def __init__(self, max_turns: int = 1):
        self.box = ""

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        *empty, self.box = rng.sample(self.BOXES, len(self.BOXES))
        return (
            "A coin is in one of the boxes A, B, C, D, E and F.\n"
            f"The boxes {', '.join(sorted(empty))} are empty. Which box has the coin?\n"
            f"Actions: {' '.join(self.BOXES)}"
        ), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        said = action.strip(" .").upper()
        if said == self.box:
            return "You found the coin.", 1.0, True, False, {}
        return "That box is empty.", 0.1 * (said in self.BOXES), True, False, {}

    def solution(self) -> list[str]:
        return [self.box]
