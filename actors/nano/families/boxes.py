"""Open the right box by its weight, often enough; the rule may be printed, or must be read off the answers."""

import random
import re
from collections.abc import Sequence

from actors.nano.families.base import Knobs, Player, offered, say
from actors.nano.program import Body

RANKS = {"heaviest": -1, "second heaviest": -2, "lightest": 0, "second lightest": 1}


class Boxes:
    name = "Boxes"
    skills = ("logical deduction", "mathematical reasoning")
    statement = re.compile(f"Open the ({'|'.join(RANKS)})\\.")

    def knobs(self, rng: random.Random) -> Knobs:
        need = rng.randint(2, 3)
        turns = need + rng.randint(0, need - 1)
        return Knobs(turns, rng.randint(4, 5), need, rng.choice(tuple(RANKS)), rng.random() < 0.4)

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
        return Weigher([knobs.rule] if informed else list(RANKS), rng)


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
        ranked = sorted(self.boxes, reverse=rule.endswith("heaviest"))
        shown = " ".join(ranked[: 1 + rule.startswith("second")])
        return say(ranked[rule.startswith("second")], f"the {rule} {shown}")
