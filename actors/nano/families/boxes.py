"""The game Boxes: open the box with the right rank of weight, several times."""

import random
import re
from collections.abc import Sequence
from itertools import product

from actors.nano.families.base import Player, read_offered, write_message
from actors.nano.families.game import Game, Knobs, pair_rules
from actors.nano.levels import EVERY, PLAIN
from actors.nano.program import Body

RANKS = {
    "heaviest": "-1", "lightest": "0", "second heaviest": "-2", "second lightest": "1",
    "third heaviest": "-3", "third lightest": "2", "fourth heaviest": "-4", "fourth lightest": "3",
}  # fmt: skip
SHAPES = (
    ((3, 4), (2, 3)), ((4, 5), (2, 3)), ((3, 4, 5), (2, 3)), ((4, 5), (2, 3)), ((6, 7), (1, 2, 3)), ((8, 9), (1, 2, 3)),
)  # fmt: skip
"""By level: the possible numbers of boxes, and how often the right one must be opened."""


class Boxes(Game):
    name = "Boxes"
    skills = ("logical deduction", "mathematical reasoning")
    strategy = "Sort the boxes."
    sentence = "Open the {}."
    rules = RANKS
    statement = re.compile(f"Open the ({'|'.join(RANKS)})\\.")
    pairs = pair_rules(RANKS)

    def __init__(self) -> None:
        self.spaces = [self.space(level) for level in EVERY]

    def space(self, level: int) -> list[Knobs]:
        """Return all parameters of a level. `size` is the number of boxes."""
        sizes, needs = SHAPES[level - 1]
        plain = tuple(RANKS)[: 2 * level]
        return [
            Knobs(level, need + spare, size, need, rules)
            for size, need, spare, rules in product(
                sizes, needs, (0, 1) if level <= PLAIN else (0,), self.choices(level, plain)
            )
        ]

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        return Body(
            reset=f'self.deals = [self.rng.sample("123456789", {knobs.size}) for _ in range(self.max_turns + 1)]\n'
            f"self.actions = self.deals[0]\nself.rank = {self.value(knobs)}\nself.hits = 0",
            opening=f'f"{self.word_rule(knobs)}"',
            step="answer = sorted(self.actions)[self.rank]\n"
            "self.hits += action == answer\n"
            "self.actions = self.deals[min(self.turn, self.max_turns)]",
            won=f"self.hits == {knobs.need}",
            reply='f"It was {answer}."',
            reward="self.hits / (self.hits + 1)",
            solution=f"[sorted(deal)[self.rank] for deal in self.deals[:{knobs.need}]]",
        )

    def follower(self, knobs: Knobs, rule: str, rng: random.Random) -> Player:
        return Weigher(rule, int(RANKS[rule]))


class Weigher:
    """A player that lists the boxes by weight, up to the box that the rule names, and opens this box."""

    def __init__(self, rule: str, rank: int) -> None:
        self.rule = rule
        self.rank = rank

    def act(self, observation: str) -> str:
        shown = take_counted(read_offered(observation), self.rank)
        return write_message(shown[-1], f"the {self.rule} {' '.join(shown)}")


def take_counted(boxes: Sequence[str], rank: int) -> list[str]:
    """Sort the boxes, the heaviest first if the rank is negative. Return them up to the box of this rank."""
    return sorted(boxes, reverse=rank < 0)[: -rank if rank < 0 else rank + 1]
