"""One question: two trials differ in one thing, and that thing is the cause."""

import random


class RisenCakeEnv:
    THINGS = ["milk", "salt", "sugar", "butter", "yeast", "honey", "eggs", "lemon"]

    def __init__(self, max_turns: int = 1):
        self.cause = ""

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        used = rng.sample(self.THINGS, 3)
        self.cause = rng.choice(used)
        rest = [thing for thing in used if thing != self.cause]
        return (
            f"Cake 1 had {', '.join(used)}. It rose.\nCake 2 had {', '.join(rest)}. It stayed flat.\n"
            f"What made cake 1 rise?\nActions: {' '.join(self.THINGS)}"
        ), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        if action.strip().lower() == self.cause:
            return "Right.", 1.0, True, False, {}
        return "Wrong. That was in both cakes, or in none.", 0.0, True, False, {}

    def solution(self) -> list[str]:
        return [self.cause]
