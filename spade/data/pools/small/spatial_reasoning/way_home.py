"""Two turns: walk home by undoing the steps of the way out."""

import random


class WayHomeEnv:
    BACK = {"north": "south", "south": "north", "east": "west", "west": "east"}

    def __init__(self, max_turns: int = 2):
        self.steps = []  # of the way out
        self.gone = 0

    def reset(self, seed: int) -> tuple[str, dict]:
        self.gone = 0
        self.steps = random.Random(seed).choices(list(self.BACK), k=2)
        return self.view("Now undo your last step."), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        if action.strip(" .").lower() != self.solution()[self.gone]:
            return "You have lost your way.", 0.5 * self.gone / len(self.steps), True, False, {}
        self.gone += 1
        if self.gone == len(self.steps):
            return "You are at home.", 1.0, True, False, {}
        return self.view("Good. Undo the step before it."), 0.5 * self.gone / len(self.steps), False, False, {}

    def view(self, happened: str) -> str:
        out = ", then ".join(self.steps[: len(self.steps) - self.gone])
        return f"You went {out}. {happened}\nActions: {' '.join(self.BACK)}"

    def solution(self) -> list[str]:
        return [self.BACK[step] for step in reversed(self.steps)]
