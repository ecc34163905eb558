"""One question: how many times does a word occur in a row of words?"""

import random


class AppleCountEnv:
    def __init__(self, max_turns: int = 1):
        self.answer = 0

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        self.answer = rng.randint(1, 4)
        row = ["apple"] * self.answer + rng.choices(["pear", "fig"], k=rng.randint(0, 2))
        rng.shuffle(row)
        return f"{' '.join(row)}\nHow many times does apple stand there?\nActions: 0..9", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        said = action.strip(" .")
        if said == str(self.answer):
            return "Right.", 1.0, True, False, {}
        return "Wrong. Count the word apple.", 0.1 * said.isdecimal(), True, False, {}

    def solution(self) -> list[str]:
        return [str(self.answer)]
