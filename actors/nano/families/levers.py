"""The game Levers: find the lever that governs a machine.

Trials pull some levers and show whether the machine is on. A good player remembers which levers a trial has ruled out.
"""

import random
import re
from collections.abc import Sequence
from itertools import product

from actors.nano.families.base import Player, read_offered, write_message
from actors.nano.families.game import Game, Knobs, pair_rules
from actors.nano.levels import EVERY
from actors.nano.program import Body

EFFECTS = {
    "lights": "True", "blocks": "False", "opens": "True", "shuts": "False",
    "starts": "True", "stops": "False", "fills": "True", "drains": "False",
}  # fmt: skip
SIZES = (6, 7)
"""Numbers of levers. With more levers, the model wins only part of the plays however long it trains. Such programs
would pay the designer forever."""
TURNS = 3


class Levers(Game):
    name = "Levers"
    skills = ("causal inference", "logical deduction")
    strategy = "Strike out levers."
    sentence = "One lever {} it."
    rules = EFFECTS
    statement = re.compile(f"One lever ({'|'.join(EFFECTS)}) it\\.")
    pairs = pair_rules(EFFECTS)

    def __init__(self) -> None:
        self.spaces = [self.space(level) for level in EVERY]

    def space(self, level: int) -> list[Knobs]:
        """Return all parameters of a level. `size` is the number of levers, and a trial pulls `need` of them."""
        return [
            Knobs(level, TURNS, size, need, rules)
            for size, rules in product(SIZES, self.choices(level, tuple(EFFECTS)[: 2 * level]))
            for need in range(size // 2 - 1, size // 2 + 2)
        ]

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        return Body(
            reset=f"self.actions = [str(n) for n in range(1, {knobs.size + 1})]\n"
            "self.cause = self.rng.choice(self.actions)\n"
            f"self.helps = {self.value(knobs)}\n"
            f"self.trials = [sorted(self.rng.sample(self.actions, {knobs.need})) for _ in range(self.max_turns + 1)]\n"
            'self.signs = ["on" if (self.cause in pulled) == self.helps else "off" for pulled in self.trials]',
            opening=f'f"Which lever? {self.word_rule(knobs)} {TRIAL.format(n=0)}"',
            actions=f"1..{knobs.size}",
            step="n = min(self.turn, self.max_turns)",
            won="action == self.cause",
            reply=f'f"No. {TRIAL.format(n="n")}"',
            reward="0.0",
            solution="[self.cause]",
        )

    def follower(self, knobs: Knobs, rule: str, rng: random.Random) -> Player:
        return Striker(EFFECTS[rule] == "True", rule, rng)


TRIAL = "{{' '.join(self.trials[{n}])}} {{self.signs[{n}]}}."


class Striker:
    """A player that lists the remaining levers and pulls one of them."""

    def __init__(self, helps: bool, rule: str, rng: random.Random) -> None:
        self.helps = helps
        self.rule = rule
        self.rng = rng
        self.left: list[str] | None = None

    def act(self, observation: str) -> str:
        left = read_offered(observation) if self.left is None else self.left
        if trial := re.search(r"([\d ]+) (on|off)\.", observation):
            pulled, on = trial[1].split(), trial[2] == "on"
            left = [lever for lever in left if (lever in pulled) == (on == self.helps)]
        # A player that assumes the wrong rule may have ruled out every lever.
        action = self.rng.choice(left or read_offered(observation))
        self.left = [lever for lever in left if lever != action]
        return write_message(action, f"{self.rule} {' '.join(left)}".rstrip())
