"""One question: the larger of two numbers."""

import random


class FullerJarEnv:
    def __init__(self, max_turns: int = 1):
        self.answer = 0

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        left, right = rng.sample(range(1, 10), 2)
        self.answer = max(left, right)
        return f"One jar has {left} beans, the other {right}. Which number is larger?\nActions: 0..12", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        said = action.strip(" .")
        if said == str(self.answer):
            return "Right.", 1.0, True, False, {}
        return "Wrong. The larger of the two numbers was expected.", 0.1 * said.isdecimal(), True, False, {}

    def solution(self) -> list[str]:
        return [str(self.answer)]
