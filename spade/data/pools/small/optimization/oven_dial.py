"""Several turns: set a dial to its best place. Each try shows its distance, but no direction."""

import random


class OvenDialEnv:
    MOST = 30

    def __init__(self, max_turns: int = 4):
        self.max_turns = max_turns
        self.turn = 0
        self.best = 0

    def reset(self, seed: int) -> tuple[str, dict]:
        self.best = random.Random(seed).randint(1, self.MOST)
        self.turn = 0
        return self.view("Set the oven to its best heat."), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        self.turn += 1
        out_of_turns = self.turn >= self.max_turns
        text = action.strip(" .")
        if text not in map(str, range(1, self.MOST + 1)):
            return self.view("A number was expected."), 0.0, False, out_of_turns, {}
        away = abs(int(text) - self.best)
        if away == 0:
            return "The best heat.", 1.0, True, False, {}
        return self.view(f"At {text} the best heat is {away} away."), 0.5 / away, False, out_of_turns, {}

    def view(self, happened: str) -> str:
        turns = self.max_turns - self.turn
        return f"{happened} Tries left: {turns}.\nActions: 1..{self.MOST}"

    def solution(self) -> list[str]:
        return [str(self.best)]
