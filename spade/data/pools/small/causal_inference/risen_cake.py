"""One question: of two things left out of a cake, one made the difference."""

import random


class RisenCakeEnv:
    THINGS = ["milk", "salt", "sugar", "butter", "yeast", "honey", "eggs", "lemon"]

    def __init__(self, max_turns: int = 1):
        self.cause = ""

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        self.cause, other = rng.sample(self.THINGS, 2)
        trials = [f"Without {self.cause} the cake stayed flat.", f"Without {other} the cake rose."]
        rng.shuffle(trials)
        return f"{' '.join(trials)} What makes the cake rise?\nActions: {' '.join(self.THINGS)}", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        said = action.strip(" .").lower()
        if said == self.cause:
            return "Right.", 1.0, True, False, {}
        return "Wrong. Without that the cake also rises, or nobody tried.", 0.1 * (said in self.THINGS), True, False, {}

    def solution(self) -> list[str]:
        return [self.cause]
