"""One question: the next number of a row that grows by the same amount each time."""

import random


class EvenStepsEnv:
    def __init__(self, max_turns: int = 1):
        self.answer = 0

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        first, step = rng.randint(1, 9), rng.choice([1, 1, 2, 10])
        *shown, self.answer = [first + step * place for place in range(5)]
        return f"{' '.join(map(str, shown))}\nWhich number comes after {shown[-1]}?\nActions: 1..60", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        said = action.strip(" .")
        if said == str(self.answer):
            return "Right.", 1.0, True, False, {}
        return "Wrong. Another number comes next.", 0.1 * said.isdecimal(), True, False, {}

    def solution(self) -> list[str]:
        return [str(self.answer)]
