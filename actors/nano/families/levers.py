"""The lever that governs the lamp: trials show some levers pulled together and the lamp; strike out those ruled out."""

import random
import re
from collections.abc import Sequence
from itertools import product

from actors.nano.families.base import Knobs, Player, offered, say
from actors.nano.levels import EVERY, PRINTED, draw_by_level
from actors.nano.program import Body

RULES = {"lights": "in", "blocks": "not in"}
SIZES = ((6, 7, 8), (9, 10, 11), (8, 9), (10, 11), (8, 9), (10, 11))
TURNS = ((3,), (3,), (3,), (3,), (2, 3), (2, 3))
"""By level."""


def space(level: int) -> list[Knobs]:
    """All parameters of a level; `size` is the number of levers, of which a trial pulls `need`."""
    return [
        Knobs(level, turns, size, need, rule, printed)
        for turns, size, rule, printed in product(TURNS[level - 1], SIZES[level - 1], RULES, PRINTED[level - 1])
        for need in (size // 2, (size + 1) // 2 + 1)
    ]


class Levers:
    name = "Levers"
    skills = ("causal inference", "logical deduction")
    statement = re.compile(f"One lever ({'|'.join(RULES)}) the lamp\\.")
    spaces = tuple(space(level) for level in EVERY)

    def knobs(self, rng: random.Random) -> Knobs:
        return draw_by_level(rng, self.spaces)

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        rule = f"One lever {knobs.rule} the lamp."
        return Body(
            reset=f"self.actions = [str(n) for n in range(1, {knobs.size + 1})]\n"
            "self.cause = self.rng.choice(self.actions)\n"
            f"self.trials = [sorted(self.rng.sample(self.actions, {knobs.need})) for _ in range(self.max_turns + 1)]\n"
            f'self.lamps = ["lit" if self.cause {RULES[knobs.rule]} pulled else "dark" for pulled in self.trials]',
            opening=f'f"Which lever?{knobs.told(rule)} {TRIAL.format(n=0)}"',
            actions=f"1..{knobs.size}",
            step="n = min(self.turn, self.max_turns)",
            won="action == self.cause",
            reply=f'f"No. {TRIAL.format(n="n")}"',
            reward="0.0",
            solution="[self.cause]",
        )

    def hint(self, knobs: Knobs) -> str:
        return f"One lever {knobs.rule} the lamp. Strike out the others."

    def player(self, knobs: Knobs, informed: bool, rng: random.Random) -> Player:
        return Striker(knobs.rule if informed else rng.choice(tuple(RULES)), rng)


TRIAL = "{{' '.join(self.trials[{n}])}} {{self.lamps[{n}]}}."


class Striker:
    """Lists the levers that are left and pulls one of them."""

    def __init__(self, rule: str, rng: random.Random) -> None:
        self.rule = rule
        self.rng = rng
        self.left: list[str] = []

    def act(self, observation: str) -> str:
        self.left = self.left or offered(observation)
        trial = re.search(r"([\d ]+) (lit|dark)\.", observation)
        if trial:
            within = (trial[2] == "lit") == (self.rule == "lights")
            kept = [lever for lever in self.left if (lever in trial[1].split()) == within]
            self.left = kept or offered(observation)
        action = self.rng.choice(self.left)
        thought = f"it {self.rule} {' '.join(self.left)}"
        self.left = [lever for lever in self.left if lever != action]
        return say(action, thought)
