"""Several turns: a lamp repeats a hidden cycle of two or three colours. Predict its colour twice in a row."""

import random


class LampCycleEnv:
    COLOURS = ["red", "blue", "green", "white", "black", "yellow"]

    def __init__(self, max_turns: int = 6):
        self.max_turns = max_turns
        self.cycle = []
        self.turn = 0
        self.right = 0

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        self.cycle = rng.sample(self.COLOURS, rng.randint(2, 3))
        self.turn = self.right = 0
        return self.view("A lamp changes its colour in a fixed cycle. Predict it twice in a row."), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        colour = self.shows(self.turn + 1)
        self.turn += 1
        self.right = self.right + 1 if action.strip(" .").lower() == colour else 0
        if self.right == 2:
            return "Right, twice in a row.", 1.0, True, False, {}
        return self.view("Right." if self.right else "Wrong."), self.right / 2, False, self.turn >= self.max_turns, {}

    def shows(self, turn: int) -> str:
        return self.cycle[turn % len(self.cycle)]

    def view(self, happened: str) -> str:
        seen = " ".join(self.shows(turn) for turn in range(self.turn + 1))
        return f"{happened}\nThe lamp so far: {seen}. What comes next?\nActions: {' '.join(self.COLOURS)}"

    def solution(self) -> list[str]:
        return [self.shows(1), self.shows(2)]
