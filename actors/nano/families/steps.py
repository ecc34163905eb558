"""A number moves on by the same step each turn, modulo ten: read the step off the answers and foretell the next."""

import random
import re
from collections.abc import Sequence

from actors.nano.families.base import Knobs, Player, say
from actors.nano.program import Body


class Steps:
    name = "Steps"
    skills = ("mathematical reasoning", "pattern recognition")
    statement = re.compile(r"It adds \d\.")

    def knobs(self, rng: random.Random) -> Knobs:
        need = rng.randint(1, 3)
        return Knobs(need + rng.randint(0, min(need, 2)), rng.randint(1, 9), need, "add", rng.random() < 0.4)

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        rule = f"It adds {knobs.size}."
        return Body(
            reset="self.actions = [str(n) for n in range(10)]\nself.value = self.rng.randrange(10)\nself.hits = 0",
            opening=f'f"It is {{self.value}}. What is next?{knobs.told(rule)}"',
            actions="0..9",
            step=f"self.value = (self.value + {knobs.size}) % 10\nself.hits += action == str(self.value)",
            won=f"self.hits == {knobs.need}",
            reply='f"It is {self.value}."',
            reward=f"self.hits / {knobs.need + 1}",
            solution=f"[str((self.value + {knobs.size} * n) % 10) for n in range(1, {knobs.need + 1})]",
        )

    def hint(self, knobs: Knobs) -> str:
        return f"It adds {knobs.size} each time."

    def player(self, knobs: Knobs, informed: bool, rng: random.Random) -> Player:
        return Adder(knobs.size if informed else rng.randint(1, 9), informed)


class Adder:
    """Adds the step; uninformed, it guesses once and then takes the difference it saw."""

    def __init__(self, step: int, informed: bool) -> None:
        self.step = step
        self.informed = informed
        self.last: int | None = None

    def act(self, observation: str) -> str:
        found = re.search(r"It is (\d)", observation)
        value = int(found[1]) if found else 0
        thought = ""
        if self.last is not None and not self.informed:
            self.step = (value - self.last) % 10
            thought = f"from {self.last} to {value} "
        self.last = value
        return say(str((value + self.step) % 10), f"{thought}add {self.step} to {value}")
