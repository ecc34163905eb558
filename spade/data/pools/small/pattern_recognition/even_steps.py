"""One question: the next number of a row that grows by the same amount each time."""

import random


class EvenStepsEnv:
    def __init__(self, max_turns: int = 1):
        self.answer = 0

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        first, step = rng.randint(1, 9), rng.choice([1, 2, 3, 5, 10])
        *shown, self.answer = [first + step * place for place in range(5)]
        return f"{', '.join(map(str, shown))}\nWhich number comes next?\nActions: 1..60", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        if action.strip() == str(self.answer):
            return "Right.", 1.0, True, False, {}
        return "Wrong. Another number comes next.", 0.0, True, False, {}

    def solution(self) -> list[str]:
        return [str(self.answer)]
