"""Open the right box by its weight, often enough; the rule is printed, or must be read off the answers."""

import random
import re
from collections.abc import Sequence
from itertools import combinations, product

from actors.nano.families.base import Knobs, Player, offered, say
from actors.nano.levels import EVERY, PRINTED, draw_by_level
from actors.nano.program import Body

RANKS = {
    "heaviest": -1,
    "lightest": 0,
    "second heaviest": -2,
    "second lightest": 1,
}
RULES = (
    ("heaviest", "lightest"),
    tuple(RANKS),
    ("heaviest, lightest",),
    *(tuple(map(", ".join, combinations(RANKS, count))) for count in (2, 3, 3)),
)
SIZES = ((3, 4), (4, 5), (3, 4, 5, 6), (6, 7), (6, 7), (4, 5))
"""By level: the rules, or what an instance draws its own from, and how many boxes there are."""
WEIGHTS = ('"123456789"',) * 5 + ("[str(n) for n in range(10, 100)]",)
"""By level, what weights are drawn from: all of them have as many digits, so that they are sorted as text."""


def space(level: int) -> list[Knobs]:
    """All parameters of a level; `size` is the number of boxes. To find a rule costs a turn."""
    printed = PRINTED[level - 1]
    return [
        Knobs(level, need + spare, size, need, rule, printed)
        for size, need, spare, rule in product(
            SIZES[level - 1], (2, 3), (0, 1) if printed else (1, 2), RULES[level - 1]
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
        ranks = [str(RANKS[rule]) for rule in knobs.rule.split(", ")]
        weights = WEIGHTS[knobs.level - 1]
        drawn = ranks[0] if knobs.printed else f"self.rng.choice([{', '.join(ranks)}])"
        return Body(
            reset=f"self.deals = [self.rng.sample({weights}, {knobs.size}) for _ in range(self.max_turns + 1)]\n"
            f"self.actions = self.deals[0]\nself.rank = {drawn}\nself.hits = 0",
            opening=f'"Open a box.{knobs.told(f"Open the {knobs.rule}.")}"',
            step="answer = sorted(self.actions)[self.rank]\n"
            "self.hits += action == answer\n"
            "self.actions = self.deals[min(self.turn, self.max_turns)]",
            won=f"self.hits == {knobs.need}",
            reply='f"It was {answer}."',
            reward=f"self.hits / {knobs.need + 1}",
            solution=f"[sorted(deal)[self.rank] for deal in self.deals[:{knobs.need}]]",
        )

    def hint(self, knobs: Knobs) -> str:
        return f"Open the {knobs.rule}." if knobs.printed else f"See what was right: {knobs.rule}."

    def player(self, knobs: Knobs, informed: bool, rng: random.Random) -> Player:
        return Weigher(knobs.rule.split(", ") if informed else list(RANKS), rng)


class Weigher:
    """Names a rule that fits the answers, and the boxes that it counts: those of the last answer, then those of now."""

    def __init__(self, rules: list[str], rng: random.Random) -> None:
        self.rules = rules
        self.rng = rng
        self.boxes: list[str] = []

    def act(self, observation: str) -> str:
        answer = re.search(r"It was (\d+)", observation)
        before, self.boxes = self.boxes, offered(observation)
        if answer:
            fitting = [rule for rule in self.rules if sorted(before)[RANKS[rule]] == answer[1]]
            self.rules = fitting or self.rules
        rule = self.rng.choice([rule for rule in self.rules if len(self.boxes) > RANKS[rule] >= -len(self.boxes)])
        seen = f"{' '.join(counted(before, rule))} so " if answer and len(before) > 1 else ""
        shown = counted(self.boxes, rule)
        return say(shown[-1], f"{seen}the {rule} {' '.join(shown)}")


def counted(boxes: Sequence[str], rule: str) -> list[str]:
    """The boxes from the end that a rule counts from to the one it means."""
    rank = RANKS[rule]
    return sorted(boxes, reverse=rank < 0)[: -rank if rank < 0 else rank + 1]
