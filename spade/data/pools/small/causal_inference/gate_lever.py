"""Two turns: one of ten levers opens the gate, and any pull shows which one."""

import random


class GateLeverEnv:
    LEVERS = ["red", "blue", "green", "white", "black", "yellow", "brown", "grey", "pink", "orange"]

    def __init__(self, max_turns: int = 2):
        self.max_turns = max_turns
        self.turn = 0
        self.cause = ""

    def reset(self, seed: int) -> tuple[str, dict]:
        self.cause = random.Random(seed).choice(self.LEVERS)
        self.turn = 0
        return self.view("One of ten levers opens the gate. You may pull two."), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        self.turn += 1
        out_of_turns = self.turn >= self.max_turns
        lever = action.strip(" .").lower()
        if lever not in self.LEVERS:
            return self.view("There is no such lever."), 0.0, False, out_of_turns, {}
        if lever == self.cause:
            return "The gate opens.", 1.0, True, False, {}
        happened = f"You pull {lever}. The gate stays shut, but the {self.cause} lever shakes."
        return self.view(happened), 0.0, False, out_of_turns, {}

    def view(self, happened: str) -> str:
        return f"{happened}\nActions: {' '.join(self.LEVERS)}"

    def solution(self) -> list[str]:
        return [self.cause]
