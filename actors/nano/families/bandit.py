"""Collect enough in few turns: each action pays always the same, one pays best; find it and stay with it."""

import random
import re
from collections.abc import Sequence

from actors.nano.families.base import Knobs, Player, offered, quoted, say
from actors.nano.program import Body

OTHERS = (1, 2, 1, 2)
"""What the lesser actions pay."""


class Bandit:
    name = "Bandit"
    skills = ("optimization", "causal inference")

    def knobs(self, rng: random.Random) -> Knobs:
        size, turns, best = rng.randint(3, 5), rng.randint(4, 6), rng.randint(7, 9)
        spare = rng.randint(1, (turns - (size == 3)) // 2)
        return Knobs(turns, size, best * (turns - spare) + rng.randint(0, 2), str(best), rng.random() < 0.4)

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        others = ", ".join(str(pay) for pay in OTHERS[: knobs.size - 1])
        return Body(
            reset=f"self.actions = {quoted(words[: knobs.size])}\n"
            f"pays = self.rng.sample([{others}, {knobs.rule}], {knobs.size})\n"
            "self.pays = dict(zip(self.actions, pays))\n"
            'self.total, self.best = 0, ""',
            opening=f'"Collect {knobs.need}.{knobs.told(f"The best pays {knobs.rule}.")}"',
            step="self.total += self.pays[action]\n"
            "if self.pays[action] > self.pays.get(self.best, 0):\n"
            "    self.best = action",
            won=f"self.total >= {knobs.need}",
            reply='f"Paid {self.pays[action]}. Best is {self.best} with {self.pays[self.best]}."',
            reward=f"0.5 * self.total / {knobs.need}",
            solution="[max(self.pays, key=self.pays.get)] * self.max_turns",
        )

    def hint(self, knobs: Knobs) -> str:
        return f"The best pays {knobs.rule}. Find it and stay."

    def player(self, knobs: Knobs, informed: bool, rng: random.Random) -> Player:
        return Settler(int(knobs.rule) if informed else 5, rng)


class Settler:
    """Tries what is untried until something pays well enough, then stays with it."""

    def __init__(self, enough: int, rng: random.Random) -> None:
        self.enough = enough
        self.rng = rng
        self.pays: dict[str, int] = {}
        self.last = ""

    def act(self, observation: str) -> str:
        paid = re.match(r"Paid (\d+)", observation)
        if paid:
            self.pays[self.last] = int(paid[1])
        untried = [action for action in offered(observation) if action not in self.pays]
        if self.pays and (max(self.pays.values()) >= self.enough or not untried):
            self.last = max(self.pays, key=self.pays.__getitem__)
            return say(self.last, f"stay with {self.last}")
        self.last = self.rng.choice(untried)
        return say(self.last, "try")
