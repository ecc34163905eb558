"""Two turns: ask for a clue about the thief, then name the one suspect who fits."""

import random


class HatThiefEnv:
    NAMES = ["Ann", "Ben", "Cora", "Dan", "Eva", "Finn"]
    HATS = ["red", "blue", "green", "white", "black", "yellow"]

    def __init__(self, max_turns: int = 3):
        self.max_turns = max_turns
        self.turn = 0
        self.hats = {}  # of each name
        self.thief = ""

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        self.turn = 0
        self.hats = dict(zip(self.NAMES, rng.sample(self.HATS, 6)))
        self.thief = rng.choice(self.NAMES)
        return self.view("Who is the thief? A witness will tell you more if you ask."), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        self.turn += 1
        out_of_turns = self.turn >= self.max_turns
        said = action.strip(" .").capitalize()
        if said == "Ask":
            clue = f"The witness says: the thief has the {self.hats[self.thief]} hat. Who is it?"
            return self.view(clue), 0.2, False, out_of_turns, {}
        if said not in self.NAMES:
            return self.view("Say ask, or a name."), 0.0, False, out_of_turns, {}
        if said != self.thief:
            return f"{said} did not do it. The thief runs away.", 0.0, True, False, {}
        return f"{said} is the thief.", 1.0, True, False, {}

    def view(self, happened: str) -> str:
        worn = ", ".join(f"{name} {hat}" for name, hat in self.hats.items())
        return f"Hats: {worn}. {happened}\nActions: ask {' '.join(self.NAMES)}"

    def solution(self) -> list[str]:
        return ["ask", self.thief]
