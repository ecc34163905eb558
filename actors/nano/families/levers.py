"""The lever that governs the lamp: trials show some levers pulled together and the lamp; strike out those ruled out."""

import random
import re
from collections.abc import Sequence
from itertools import product

from actors.nano.families.base import Player, offered, say
from actors.nano.families.game import Game, Knobs
from actors.nano.levels import EVERY, PLAIN
from actors.nano.program import Body

EFFECTS = {"lights": "True", "blocks": "False"}
SIZES = ((6, 7, 8), (9, 10, 11), (5, 6), (6, 7), (8, 9), (10, 11))
"""By level: how many levers there are."""
TURNS = 3


class Levers(Game):
    name = "Levers"
    skills = ("causal inference", "logical deduction")
    strategy = "Strike out levers."
    sentence = "One lever {} the lamp."
    rules = EFFECTS
    statement = re.compile(f"One lever ({'|'.join(EFFECTS)}) the lamp\\.")
    meant = tuple(EFFECTS)
    middle = "v"

    def __init__(self) -> None:
        self.spaces = [self.space(level) for level in EVERY]

    def space(self, level: int) -> list[Knobs]:
        """All parameters of a level; `size` is the number of levers, of which a trial pulls `need`."""
        return [
            Knobs(level, TURNS, size, need, rules)
            for size, rules in product(SIZES[level - 1], self.choices(level, self.meant))
            for need in ((size // 2, (size + 1) // 2 + 1) if level <= PLAIN else (size // 2, size // 2 + 1))
        ]

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        return Body(
            reset=f"self.actions = [str(n) for n in range(1, {knobs.size + 1})]\n"
            "self.cause = self.rng.choice(self.actions)\n"
            f"{self.drawn(knobs, 'self.lights')}\n"
            f"self.trials = [sorted(self.rng.sample(self.actions, {knobs.need})) for _ in range(self.max_turns + 1)]\n"
            'self.lamps = ["lit" if (self.cause in pulled) == self.lights else "dark" for pulled in self.trials]',
            opening=f'f"Which lever? {self.told(knobs)} {TRIAL.format(n=0)}"',
            actions=f"1..{knobs.size}",
            step="n = min(self.turn, self.max_turns)",
            won="action == self.cause",
            reply=f'f"No. {TRIAL.format(n="n")}"',
            reward="0.0",
            solution="[self.cause]",
        )

    def follower(self, knobs: Knobs, rule: str, rng: random.Random) -> Player:
        return Striker(rule == "lights", rule, rng)


TRIAL = "{{' '.join(self.trials[{n}])}} {{self.lamps[{n}]}}."


class Striker:
    """Lists the levers that are left, and pulls one of them."""

    def __init__(self, lights: bool, rule: str, rng: random.Random) -> None:
        self.lights = lights
        self.rule = rule
        self.rng = rng
        self.left: list[str] | None = None

    def act(self, observation: str) -> str:
        left = offered(observation) if self.left is None else self.left
        if trial := re.search(r"([\d ]+) (lit|dark)\.", observation):
            pulled, lit = trial[1].split(), trial[2] == "lit"
            left = [lever for lever in left if (lever in pulled) == (lit == self.lights)]
        # A player who takes the rule for another may be left with no lever.
        action = self.rng.choice(left or offered(observation))
        self.left = [lever for lever in left if lever != action]
        return say(action, f"{self.rule} {' '.join(left)}".rstrip())
