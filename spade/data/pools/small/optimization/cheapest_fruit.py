"""One question: the cheapest of several things."""

import random


class CheapestFruitEnv:
    FRUIT = ["apple", "pear", "fig", "plum", "lemon"]

    def __init__(self, max_turns: int = 1):
        self.prices = {}

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        self.prices = dict(zip(self.FRUIT, rng.sample(range(1, 20), len(self.FRUIT))))
        told = ", ".join(f"{fruit} {price}" for fruit, price in self.prices.items())
        return f"Prices: {told}.\nWhich fruit is the cheapest?\nActions: {' '.join(self.FRUIT)}", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        fruit = action.strip(" .").lower()
        if fruit not in self.prices:
            return "Wrong. The name of a fruit was expected.", 0.0, True, False, {}
        if fruit == self.solution()[0]:
            return "You bought the cheapest fruit.", 1.0, True, False, {}
        cheaper = sum(price < self.prices[fruit] for price in self.prices.values())
        return f"{cheaper} of the others are cheaper.", 0.3 / cheaper, True, False, {}

    def solution(self) -> list[str]:
        return [min(self.prices, key=self.prices.__getitem__)]
