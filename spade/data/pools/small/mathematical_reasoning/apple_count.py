"""One question: how many times does a word occur in a row of words?"""

import random


class AppleCountEnv:
    FRUIT = ["apple", "pear", "fig"]

    def __init__(self, max_turns: int = 1):
        self.answer = 0

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        self.answer = rng.randint(1, 5)
        row = ["apple"] * self.answer + rng.choices(["pear", "fig"], k=rng.randint(0, 3))
        rng.shuffle(row)
        return f"On the table: {' '.join(row)}.\nHow many apples are there?\nActions: 0..10", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        if action.strip() == str(self.answer):
            return "Right.", 1.0, True, False, {}
        return "Wrong. Count the word apple.", 0.0, True, False, {}

    def solution(self) -> list[str]:
        return [str(self.answer)]
