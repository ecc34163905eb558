"""One question: the next bead of a string with colours that repeat."""

import random


class ColourBeadsEnv:
    COLOURS = ["red", "blue", "green", "white", "black", "yellow", "brown", "grey"]

    def __init__(self, max_turns: int = 1):
        self.answer = ""

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        cycle = rng.sample(self.COLOURS, rng.randint(2, 3))
        length = rng.randint(5, 7)
        *beads, self.answer = [cycle[place % len(cycle)] for place in range(length + 1)]
        return (f"{' '.join(beads)}\nWhich colour comes next?\nActions: {' '.join(self.COLOURS)}"), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        said = action.strip(" .").lower()
        if said == self.answer:
            return "Right.", 1.0, True, False, {}
        return "Wrong. Another colour comes next.", 0.1 * (said in self.COLOURS), True, False, {}

    def solution(self) -> list[str]:
        return [self.answer]
