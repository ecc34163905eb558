"""One question: the sum of two numbers of one digit."""

import random


class TwoPursesEnv:
    def __init__(self, max_turns: int = 1):
        self.coins = (0, 0)

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        self.coins = (rng.randint(1, 9), rng.randint(1, 9))
        first, second = self.coins
        return (
            f"Anna has {first} coins. Ben has {second} coins.\nHow many coins do they have together?\nActions: 0..20"
        ), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        if action.strip() == str(sum(self.coins)):
            return "Right.", 1.0, True, False, {}
        return "Wrong. The sum of both numbers was expected.", 0.0, True, False, {}

    def solution(self) -> list[str]:
        return [str(sum(self.coins))]
