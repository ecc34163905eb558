"""Several turns: find a hidden number by "higher" and "lower", with as few guesses as possible."""

import random


class HigherLowerEnv:
    MOST = 30

    def __init__(self, max_turns: int = 6):
        self.max_turns = max_turns
        self.turn = 0
        self.number = 0
        self.low, self.high = 1, self.MOST  # what is still possible

    def reset(self, seed: int) -> tuple[str, dict]:
        self.number = random.Random(seed).randint(1, self.MOST)
        self.turn = 0
        self.low, self.high = 1, self.MOST
        return self.view("Find the hidden number."), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        self.turn += 1
        out_of_turns = self.turn >= self.max_turns
        text = action.strip(" .")
        if text not in map(str, range(1, self.MOST + 1)):
            return self.view("A number was expected."), 0.0, False, out_of_turns, {}
        guess = int(text)
        if guess == self.number:
            return "You found it.", 1.0, True, False, {}
        if guess < self.number:
            self.low = max(self.low, guess + 1)
            return self.view(f"It is higher than {guess}."), 0.0, False, out_of_turns, {}
        self.high = min(self.high, guess - 1)
        return self.view(f"It is lower than {guess}."), 0.0, False, out_of_turns, {}

    def view(self, happened: str) -> str:
        turns = self.max_turns - self.turn
        return f"{happened} It is one of {self.low} to {self.high}. Guesses left: {turns}.\nActions: 1..{self.MOST}"

    def solution(self) -> list[str]:
        return [str(self.number)]
