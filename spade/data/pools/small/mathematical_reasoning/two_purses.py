"""One question: the sum of two numbers of one digit."""

import random


class TwoPursesEnv:
    def __init__(self, max_turns: int = 1):
        self.coins = (0, 0)

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        self.coins = (rng.randint(1, 5), rng.randint(1, 5))
        first, second = self.coins
        return f"Anna has {first} coins. Ben has {second} coins. How much is {first} + {second}?\nActions: 0..12", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        said = action.strip(" .")
        if said == str(sum(self.coins)):
            return "Right.", 1.0, True, False, {}
        return "Wrong. The sum of both numbers was expected.", 0.1 * said.isdecimal(), True, False, {}

    def solution(self) -> list[str]:
        return [str(sum(self.coins))]
