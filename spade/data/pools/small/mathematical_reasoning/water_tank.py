"""Several turns: fill a tank exactly, with jugs of several sizes. Too much water loses."""

import random


class WaterTankEnv:
    JUGS = [1, 3, 5, 10]

    def __init__(self, max_turns: int = 4):
        self.max_turns = max_turns
        self.turn = 0
        self.size = 0
        self.left = 0

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        self.turn = 0
        self.size = self.left = sum(rng.choices(self.JUGS, k=3))
        return self.view("Fill the tank exactly. Too much water loses."), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        self.turn += 1
        out_of_turns = self.turn >= self.max_turns
        jug = action.strip(" .")
        if jug not in map(str, self.JUGS):
            return self.view("There is no such jug."), 0.0, False, out_of_turns, {}
        filled = 1 - self.left / self.size
        self.left -= int(jug)
        if self.left == 0:
            return "The tank is full.", 1.0, True, False, {}
        if self.left < 0:
            return "The tank flows over.", filled / 2, True, False, {}
        return self.view(f"You pour {jug} litres."), filled / 2, False, out_of_turns, {}

    def view(self, happened: str) -> str:
        turns = self.max_turns - self.turn
        return (
            f"{happened}\nThe tank needs {self.left} more litres. Turns left: {turns}. Choose a jug.\n"
            f"Actions: {' '.join(map(str, self.JUGS))}"
        )

    def solution(self) -> list[str]:
        jugs, left = [], self.size
        while left:  # with these jugs the largest that fits never needs more than four
            jugs.append(max(jug for jug in self.JUGS if jug <= left))
            left -= jugs[-1]
        return [str(jug) for jug in jugs]
