"""The lever that governs the lamp: trials show some levers pulled together and the lamp; strike out those ruled out."""

import random
import re
from collections.abc import Sequence
from itertools import product

from actors.nano.families.base import Knobs, Player, offered, say
from actors.nano.levels import EVERY, PRINTED, draw_by_level
from actors.nano.program import Body

RULES = {"lights": True, "blocks": False}
SIZES = ((6, 7, 8), (9, 10, 11), (5, 6), (6, 7), (8, 9), (10, 11))
TURNS = ((3,), (3,), (3, 4), (3, 4), (3, 4), (3, 4))
"""By level."""


def space(level: int) -> list[Knobs]:
    """All parameters of a level; `size` is the number of levers, of which a trial pulls `need`."""
    printed = PRINTED[level - 1]
    return [
        Knobs(level, turns, size, need, rule, printed)
        for turns, size, rule in product(TURNS[level - 1], SIZES[level - 1], RULES if printed else ("",))
        for need in ((size // 2, (size + 1) // 2 + 1) if printed else range(size // 2 - 1, size // 2 + 2))
    ]


class Levers:
    name = "Levers"
    skills = ("causal inference", "logical deduction")
    statement = re.compile(f"One lever ({'|'.join(RULES)}) the lamp\\.")
    spaces = tuple(space(level) for level in EVERY)

    def knobs(self, rng: random.Random) -> Knobs:
        return draw_by_level(rng, self.spaces)

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        drawn = RULES[knobs.rule] if knobs.printed else "self.rng.choice([True, False])"
        rule = f"One lever {knobs.rule} the lamp."
        return Body(
            reset=f"self.actions = [str(n) for n in range(1, {knobs.size + 1})]\n"
            "self.cause = self.rng.choice(self.actions)\n"
            f"self.lights = {drawn}\n"
            f"self.trials = [sorted(self.rng.sample(self.actions, {knobs.need})) for _ in range(self.max_turns + 1)]\n"
            'self.lamps = ["lit" if (self.cause in pulled) == self.lights else "dark" for pulled in self.trials]',
            opening=f'f"Which lever?{knobs.told(rule)} {TRIAL.format(n=0)}"',
            actions=f"1..{knobs.size}",
            step="n = min(self.turn, self.max_turns)",
            won="action == self.cause",
            reply=f'f"No. {TRIAL.format(n="n")}"',
            reward="0.0",
            solution="[self.cause]",
        )

    def hint(self, knobs: Knobs) -> str:
        rule = knobs.rule if knobs.printed else "lights or blocks"
        return f"One lever {rule} the lamp. Strike out the others."

    def player(self, knobs: Knobs, informed: bool, rng: random.Random) -> Player:
        return Striker([knobs.rule] if knobs.printed else list(RULES), rng)


TRIAL = "{{' '.join(self.trials[{n}])}} {{self.lamps[{n}]}}."


class Striker:
    """Lists by rule the levers that are left, and pulls one of them."""

    def __init__(self, rules: Sequence[str], rng: random.Random) -> None:
        self.rules = rules
        self.rng = rng
        self.left: dict[str, list[str]] = {}

    def act(self, observation: str) -> str:
        self.left = self.left or {rule: offered(observation) for rule in self.rules}
        trial = re.search(r"([\d ]+) (lit|dark)\.", observation)
        if trial:
            pulled, lit = trial[1].split(), trial[2] == "lit"
            for rule, left in self.left.items():
                self.left[rule] = [lever for lever in left if (lever in pulled) == (lit == RULES[rule])]
        likely = {lever for left in self.left.values() for lever in left}
        action = self.rng.choice(sorted(likely) or offered(observation))
        thought = " ".join(f"{rule} {' '.join(left)}" for rule, left in self.left.items() if left)
        self.left = {rule: [lever for lever in left if lever != action] for rule, left in self.left.items()}
        return say(action, thought)
