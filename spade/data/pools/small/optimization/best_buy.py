"""One question: the dearest thing that the money still pays for."""

import random


class BestBuyEnv:
    THINGS = ["lamp", "rope", "cup", "knife", "boots"]

    def __init__(self, max_turns: int = 1):
        self.prices = {}
        self.coins = 0

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        self.prices = dict(zip(self.THINGS, rng.sample(range(1, 20), len(self.THINGS))))
        self.coins = rng.choice(sorted(self.prices.values())[1:])
        told = ", ".join(f"{thing} {price}" for thing, price in self.prices.items())
        return (
            f"Prices: {told}. You have {self.coins} coins.\n"
            f"What is the most expensive thing that you can pay for?\nActions: {' '.join(self.THINGS)}"
        ), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        thing = action.strip(" .").lower()
        if thing not in self.prices:
            return "Wrong. The name of a thing was expected.", 0.0, True, False, {}
        if self.prices[thing] > self.coins:
            return "You cannot pay for that.", 0.0, True, False, {}
        if thing == self.solution()[0]:
            return "You made the best of your coins.", 1.0, True, False, {}
        return "You could have bought something better.", 0.2, True, False, {}

    def solution(self) -> list[str]:
        payable = [thing for thing, price in self.prices.items() if price <= self.coins]
        return [max(payable, key=self.prices.__getitem__)]
