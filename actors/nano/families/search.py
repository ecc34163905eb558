"""Find a hidden number by "higher" and "lower" in few turns: keep the range in mind and ask for its middle."""

import random
import re
from collections.abc import Sequence

from actors.nano.families.base import Knobs, Player, say
from actors.nano.program import Body

STRIDES = {"any": 1, "odd": 2, "even": 2}


class Search:
    name = "Search"
    skills = ("mathematical reasoning", "optimization")
    statement = re.compile(r"It is (odd|even)\.")

    def knobs(self, rng: random.Random) -> Knobs:
        rule = rng.choice(("any", "any", "odd", "even"))
        turns = rng.randint(2, 5)
        return Knobs(turns, rng.randint(max(10, 4 * turns), 20), 1, rule, rule != "any" and rng.random() < 0.5)

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        first = 2 if knobs.rule == "even" else 1
        return Body(
            reset=f"self.actions = [str(n) for n in range(1, {knobs.size + 1})]\n"
            f"self.goal = self.rng.randrange({first}, {knobs.size + 1}, {STRIDES[knobs.rule]})",
            opening=f'"Find the number.{knobs.told(f"It is {knobs.rule}.")}"',
            actions=f"1..{knobs.size}",
            step="guess = int(action)\n"
            'reply = "Higher" if guess < self.goal else "Lower"\n'
            "gap = abs(guess - self.goal)",
            won="guess == self.goal",
            reply='f"{reply} than {guess}."',
            reward="0.4 / (1 + gap)",
            solution="[str(self.goal)]",
        )

    def hint(self, knobs: Knobs) -> str:
        nature = "" if knobs.rule == "any" else f" It is {knobs.rule}."
        return f"Take the middle of what is left.{nature}"

    def player(self, knobs: Knobs, informed: bool, rng: random.Random) -> Player:
        return Halver(knobs.rule if informed else "any")


class Halver:
    """Notes the range that is left, then asks for its middle."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self.low = self.high = 0

    def act(self, observation: str) -> str:
        numbers = [int(number) for number in re.findall(r"\d+", observation)]
        if observation.startswith("Higher"):
            self.low = numbers[0] + 1
        elif observation.startswith("Lower"):
            self.high = numbers[0] - 1
        else:
            self.low, self.high = 1, numbers[-1]
        return say(str(self.middle()), f"from {self.low} to {self.high}")

    def middle(self) -> int:
        middle = (self.low + self.high) // 2
        misfit = self.rule != "any" and middle % 2 != (self.rule == "odd")
        return middle if not misfit else middle + 1 if middle < self.high else middle - 1
