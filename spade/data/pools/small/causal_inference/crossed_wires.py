"""Two turns: every switch lights a lamp some numbers further on. Find out how many, then light the right lamp."""

import random


class CrossedWiresEnv:
    COUNT = 12

    def __init__(self, max_turns: int = 2):
        self.max_turns = max_turns
        self.turn = 0
        self.shift = 0
        self.goal = 0

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        self.shift = rng.randint(1, 3)
        self.goal = rng.randint(1 + self.shift, self.COUNT)
        self.turn = 0
        return self.view("Each switch lights a lamp, always the same number further on."), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        self.turn += 1
        out_of_turns = self.turn >= self.max_turns
        text = action.strip(" .")
        if text not in map(str, range(1, self.COUNT + 1)):
            return self.view("There is no such switch."), 0.0, False, out_of_turns, {}
        lamp = (int(text) + self.shift - 1) % self.COUNT + 1
        if lamp == self.goal:
            return "The right lamp lights.", 1.0, True, False, {}
        return self.view(f"Switch {text} lights lamp {lamp}."), 0.0, False, out_of_turns, {}

    def view(self, happened: str) -> str:
        return f"{happened} Light lamp {self.goal}. Tries left: {self.max_turns - self.turn}.\nActions: 1..{self.COUNT}"

    def solution(self) -> list[str]:
        return [str(self.goal - self.shift)]
