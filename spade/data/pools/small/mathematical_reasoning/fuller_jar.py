"""One question: the larger of two numbers."""

import random


class FullerJarEnv:
    def __init__(self, max_turns: int = 1):
        self.answer = 0

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        left, right = rng.sample(range(1, 20), 2)
        self.answer = max(left, right)
        return (
            f"The left jar has {left} beans. The right jar has {right} beans.\n"
            "How many beans are in the fuller jar?\n"
            "Actions: 1..19"
        ), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        if action.strip() == str(self.answer):
            return "Right.", 1.0, True, False, {}
        return "Wrong. The larger of the two numbers was expected.", 0.0, True, False, {}

    def solution(self) -> list[str]:
        return [str(self.answer)]
