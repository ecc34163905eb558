"""One question: the neighbour of a letter in a square of nine letters."""

import random


class LetterGridEnv:
    SIDES = {"left of": (0, -1), "right of": (0, 1), "above": (-1, 0), "below": (1, 0)}

    def __init__(self, max_turns: int = 1):
        self.answer = ""

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        letters = rng.sample("ABCDEFGHI", 9)
        rows = [letters[:3], letters[3:6], letters[6:]]
        side = rng.choice(list(self.SIDES))
        down, right = self.SIDES[side]
        row = rng.randrange(max(0, -down), 3 - max(0, down))  # so that the neighbour lies in the square
        column = rng.randrange(max(0, -right), 3 - max(0, right))
        self.answer = rows[row + down][column + right]
        square = "\n".join(" ".join(each) for each in rows)
        question = f"Which letter is directly {side} {rows[row][column]}?"
        return f"{square}\n{question}\nActions: A B C D E F G H I", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        said = action.strip(" .").upper()
        if said == self.answer:
            return "Right.", 1.0, True, False, {}
        return "Wrong. One letter of the square was expected.", 0.1 * (said in list("ABCDEFGHI")), True, False, {}

    def solution(self) -> list[str]:
        return [self.answer]
