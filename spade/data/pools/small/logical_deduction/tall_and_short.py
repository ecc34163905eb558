"""Two turns: put three people in order from comparisons, then name both ends."""

import random


class TallAndShortEnv:
    NAMES = ["Ann", "Ben", "Cora"]

    def __init__(self, max_turns: int = 2):
        self.facts = ""
        self.order = []  # from the tallest to the shortest
        self.found = False

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        self.found = False
        self.order = rng.sample(self.NAMES, 3)
        pairs = zip(self.order, self.order[1:])
        self.facts = " ".join(f"{taller} is taller than {shorter}." for taller, shorter in pairs)
        return self.view("Who is the tallest?"), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        name = action.strip(" .").capitalize()
        if not self.found:
            if name != self.order[0]:
                return "Wrong. Somebody is taller.", 0.0, True, False, {}
            self.found = True
            return self.view("Right. Who is the shortest?"), 0.5, False, False, {}
        if name != self.order[-1]:
            return "Wrong. Somebody is shorter.", 0.5, True, False, {}
        return "Right.", 1.0, True, False, {}

    def view(self, question: str) -> str:
        return f"{self.facts} {question}\nActions: {' '.join(self.NAMES)}"

    def solution(self) -> list[str]:
        return [self.order[0], self.order[-1]]
