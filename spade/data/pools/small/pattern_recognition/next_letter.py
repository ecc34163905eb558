"""One question: the letter that follows in the alphabet."""

import random


class NextLetterEnv:
    LETTERS = "ABCDEFGHIJKLMNOP"

    def __init__(self, max_turns: int = 1):
        self.answer = ""

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        first = rng.randrange(len(self.LETTERS) - 4)
        *shown, self.answer = self.LETTERS[first : first + 5]
        return f"{' '.join(shown)}\nWhich letter comes after {shown[-1]}?\nActions: {' '.join(self.LETTERS)}", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        said = action.strip(" .").upper()
        if said == self.answer:
            return "Right.", 1.0, True, False, {}
        return "Wrong. Another letter comes next.", 0.1 * (said in list(self.LETTERS)), True, False, {}

    def solution(self) -> list[str]:
        return [self.answer]
