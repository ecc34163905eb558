"""Open the right box by its weight, often enough; the rule may be printed, or must be read off the answers."""

import random
import re
from collections.abc import Sequence
from itertools import product

from actors.nano.families.base import Knobs, Player, offered, say
from actors.nano.levels import EVERY, PRINTED, draw_by_level
from actors.nano.program import Body

RANKS = {
    "heaviest": -1,
    "lightest": 0,
    "second heaviest": -2,
    "second lightest": 1,
    "third heaviest": -3,
    "third lightest": 2,
}
KINDS = (2, 2, 4, 4, 6, 6)
SIZES = ((3, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, 9))
"""By level: how many of the ranks can be the rule, and how many boxes there are."""


def space(level: int) -> list[Knobs]:
    """All parameters of a level; `size` is the number of boxes."""
    return [
        Knobs(level, need + spare, size, need, rule, printed)
        for size, need, spare, rule, printed in product(
            SIZES[level - 1], (2, 3), (0, 1), tuple(RANKS)[: KINDS[level - 1]], PRINTED[level - 1]
        )
    ]


class Boxes:
    name = "Boxes"
    skills = ("logical deduction", "mathematical reasoning")
    statement = re.compile(f"Open the ({'|'.join(RANKS)})\\.")
    spaces = tuple(space(level) for level in EVERY)

    def knobs(self, rng: random.Random) -> Knobs:
        return draw_by_level(rng, self.spaces)

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        rank = RANKS[knobs.rule]
        return Body(
            reset=f'self.deals = [self.rng.sample("123456789", {knobs.size}) for _ in range(self.max_turns + 1)]\n'
            "self.actions = self.deals[0]\nself.hits = 0",
            opening=f'"Open a box.{knobs.told(f"Open the {knobs.rule}.")}"',
            step=f"answer = sorted(self.actions)[{rank}]\n"
            "self.hits += action == answer\n"
            "self.actions = self.deals[min(self.turn, self.max_turns)]",
            won=f"self.hits == {knobs.need}",
            reply='f"It was {answer}."',
            reward=f"self.hits / {knobs.need + 1}",
            solution=f"[sorted(deal)[{rank}] for deal in self.deals[:{knobs.need}]]",
        )

    def hint(self, knobs: Knobs) -> str:
        return f"Open the {knobs.rule}."

    def player(self, knobs: Knobs, informed: bool, rng: random.Random) -> Player:
        return Weigher([knobs.rule] if informed else list(RANKS)[: KINDS[knobs.level - 1]], rng)


class Weigher:
    """Names a rule that fits all answers so far, then the box it means."""

    def __init__(self, rules: list[str], rng: random.Random) -> None:
        self.rules = rules
        self.rng = rng
        self.boxes: list[str] = []

    def act(self, observation: str) -> str:
        answer = re.search(r"It was (\d)", observation)
        if answer:
            fitting = [rule for rule in self.rules if sorted(self.boxes)[RANKS[rule]] == answer[1]]
            self.rules = fitting or self.rules
        self.boxes = offered(observation)
        rule = self.rng.choice(self.rules)
        rank = RANKS[rule]
        ranked = sorted(self.boxes, reverse=rank < 0)
        shown = ranked[: -rank if rank < 0 else rank + 1]
        return say(shown[-1], f"the {rule} {' '.join(shown)}")
