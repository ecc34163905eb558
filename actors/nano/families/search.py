"""Find a hidden number by "higher" and "lower" in few turns: keep the range in mind and ask for its middle."""

import random
import re
from collections.abc import Sequence
from itertools import product

from actors.nano.families.base import Knobs, Player, say
from actors.nano.levels import EVERY, draw_by_level
from actors.nano.program import Body

STRIDES = {"": 1, "odd": 2, "even": 2}
SIZES = (
    range(7, 13), range(13, 24), range(24, 40, 2), range(40, 64, 2), range(64, 100, 2), range(100, 132, 2)
)  # fmt: skip
RULES = (tuple(STRIDES), tuple(STRIDES), ("",), ("",), ("",), ("",))
"""By level: up to what number, and which rules, which are printed; "" is none."""


def space(level: int) -> list[Knobs]:
    """All parameters of a level, with the turns that find every number by its rule, or one more."""
    return [
        Knobs(level, halvings(1, size, rule) + spare, size, 1, rule, printed=bool(rule))
        for size, rule, spare in product(SIZES[level - 1], RULES[level - 1], (0,) if level < 3 else (0, 1))
    ]


def halvings(low: int, high: int, rule: str) -> int:
    """The most guesses that halving takes to find a number that fits the rule."""
    if not any(fits(number, rule) for number in range(low, high + 1)):
        return 0
    guess = middle(low, high, rule)
    return 1 + max(halvings(low, guess - 1, rule), halvings(guess + 1, high, rule))


def middle(low: int, high: int, rule: str) -> int:
    """The middle of a range, or a number beside it that fits the rule."""
    number = (low + high) // 2
    return number if fits(number, rule) else number + 1 if number < high else number - 1


def fits(number: int, rule: str) -> bool:
    """True if the rule allows the number."""
    return not rule or number % 2 == (rule == "odd")


class Search:
    name = "Search"
    skills = ("mathematical reasoning", "optimization")
    statement = re.compile(r"It is (odd|even)\.")
    spaces = tuple(space(level) for level in EVERY)

    def knobs(self, rng: random.Random) -> Knobs:
        return draw_by_level(rng, self.spaces)

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
        nature = f" It is {knobs.rule}." if knobs.rule else ""
        return f"Take the middle of what is left.{nature}"

    def player(self, knobs: Knobs, informed: bool, rng: random.Random) -> Player:
        return Halver(knobs.rule)


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
        return say(str(middle(self.low, self.high, self.rule)), f"from {self.low} to {self.high}")
