"""Several turns: start the parts of a machine in the right order, since they need each other."""

import random


class MachineChainEnv:
    PARTS = ["pump", "fan", "belt", "lamp", "horn"]

    def __init__(self, max_turns: int = 4):
        self.max_turns = max_turns
        self.turn = 0
        self.chain = []  # each part needs the one before it
        self.running = 0

    def reset(self, seed: int) -> tuple[str, dict]:
        self.chain = random.Random(seed).sample(self.PARTS, 3)
        self.turn = self.running = 0
        return self.view("Start all three."), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        self.turn += 1
        out_of_turns = self.turn >= self.max_turns
        part = action.strip(" .").lower()
        happened = f"The {part} starts." if part == self.chain[self.running] else "Nothing starts."
        self.running += part == self.chain[self.running]
        if self.running == 3:
            return "The machine works.", 1.0, True, False, {}
        return self.view(happened), self.running / 4, False, out_of_turns, {}

    def view(self, happened: str) -> str:
        first, second, third = self.chain
        runs = " and ".join(self.chain[: self.running]) or "nothing"
        return (
            f"{happened}\nThe {first} needs nothing. The {second} needs the {first}. The {third} needs the {second}. "
            f"Running: {runs}.\nActions: {' '.join(self.PARTS)}"
        )

    def solution(self) -> list[str]:
        return list(self.chain)
