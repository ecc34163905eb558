"""The game Search: find a hidden number by "higher" and "lower" in few turns.

A good player remembers the range and asks for its middle.
"""

import random
import re
from collections.abc import Sequence
from itertools import product

from actors.nano.families.base import Player, write_message
from actors.nano.families.game import Game, Knobs, pair_rules
from actors.nano.levels import EVERY, PLAIN
from actors.nano.program import Body

STRIDES = {"": 1, "odd": 2, "even": 2}
TENS = {f"{low} to {low + 9}": str(low) for low in range(10, 90, 10)}
SIZES = (
    range(7, 13), range(13, 24), range(50, 60, 2), range(60, 70, 2), range(70, 85, 3), range(90, 100, 2)
)  # fmt: skip
"""By level: the possible numbers of actions."""


def count_halvings(low: int, high: int, rule: str) -> int:
    """Return the number of guesses with which halving finds every number that fits the rule."""
    if not any(is_allowed(number, rule) for number in range(low, high + 1)):
        return 0
    guess = find_middle(low, high, rule)
    return 1 + max(count_halvings(low, guess - 1, rule), count_halvings(guess + 1, high, rule))


def find_middle(low: int, high: int, rule: str) -> int:
    """Return the middle of a range, or a number beside it that fits the rule."""
    number = (low + high) // 2
    return number if is_allowed(number, rule) else number + 1 if number < high else number - 1


def is_allowed(number: int, rule: str) -> bool:
    """Return True if the rule, a key of STRIDES, allows the number."""
    return not rule or number % 2 == (rule == "odd")


class Search(Game):
    name = "Search"
    skills = ("mathematical reasoning", "optimization")
    statement = re.compile(r"It is (odd|even)\.")
    strategy = "Take the middle of what is left."
    sentence = "It is {}."
    rules = TENS
    pairs = pair_rules(TENS)

    def __init__(self) -> None:
        self.spaces = [self.space(level) for level in EVERY]

    def space(self, level: int) -> list[Knobs]:
        """Return all parameters of a level. The turns suffice to find every number by its rule."""
        return [
            Knobs(
                level,
                count_halvings(1, size, rules[0]) if level <= PLAIN else count_halvings(1, 10, ""),
                size,
                1,
                rules,
            )
            for size, rules in product(SIZES[level - 1], self.choices(level, tuple(STRIDES)))
        ]

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        return Body(
            reset=f"self.actions = [str(n) for n in range(1, {knobs.size + 1})]\n{self.goal(knobs)}",
            opening=f'f"Find the number. {self.word_rule(knobs)}"',
            actions=f"1..{knobs.size}",
            step="guess = int(action)\n"
            'reply = "Higher" if guess < self.goal else "Lower"\n'
            "gap = abs(guess - self.goal)",
            won="guess == self.goal",
            reply='f"{reply} than {guess}."',
            reward="0.4 / (1 + gap)",
            solution="[str(self.goal)]",
        )

    def goal(self, knobs: Knobs) -> str:
        """Return the program's lines that draw the hidden number."""
        if knobs.level <= PLAIN:
            (rule,) = knobs.rules
            return f"self.goal = self.rng.randrange({1 + (rule == 'even')}, {knobs.size + 1}, {STRIDES[rule]})"
        return f"low = {self.value(knobs)}\nself.goal = self.rng.randrange(low, low + 10)"

    def follower(self, knobs: Knobs, rule: str, rng: random.Random) -> Player:
        if knobs.level <= PLAIN:
            return Halver(1, knobs.size, rule)
        low = int(TENS[rule])
        return Halver(low, low + 9, "")


class Halver:
    """A player that notes the remaining range and asks for its middle."""

    def __init__(self, low: int, high: int, rule: str) -> None:
        self.low, self.high = low, high
        self.rule = rule

    def act(self, observation: str) -> str:
        if found := re.match(r"(Higher|Lower) than (\d+)", observation):
            if found[1] == "Higher":
                self.low = max(self.low, int(found[2]) + 1)
            else:
                self.high = min(self.high, int(found[2]) - 1)
        # A player that assumes the wrong rule may have ruled out every number.
        return write_message(
            str(find_middle(self.low, max(self.low, self.high), self.rule)), f"from {self.low} to {self.high}"
        )
