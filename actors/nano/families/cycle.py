"""Foretell the next word of a hidden cycle, often enough: what followed a word once follows it again."""

import random
import re
from collections.abc import Sequence

from actors.nano.families.base import Knobs, Player, offered, quoted, say
from actors.nano.program import Body


class Cycle:
    name = "Cycle"
    skills = ("pattern recognition",)

    def knobs(self, rng: random.Random) -> Knobs:
        period, turns = rng.randint(2, 4), rng.randint(4, 6)
        need = max(3, -(-turns // period) + 1)  # more than comes to one who always says the same
        return Knobs(turns, rng.randint(4, 5), need, str(period), rng.random() < 0.4)

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        return Body(
            reset=f"self.actions = {quoted(words[: knobs.size])}\n"
            f"self.cycle = self.rng.sample(self.actions, {knobs.rule})\n"
            "self.hits, self.seen = 0, []",
            opening=f'"What is next?{knobs.told(f"It repeats after {knobs.rule}.")}"',
            step=f"answer = self.cycle[(self.turn - 1) % {knobs.rule}]\n"
            "self.hits += action == answer\n"
            "self.seen.append(answer)",
            won=f"self.hits == {knobs.need}",
            reply="f\"So far {' '.join(self.seen)}.\"",
            reward=f"self.hits / {knobs.need + 1}",
            solution=f"(self.cycle * 3)[:{knobs.need}]",
        )

    def hint(self, knobs: Knobs) -> str:
        return f"It repeats after {knobs.rule}. Say what came then."

    def player(self, knobs: Knobs, informed: bool, rng: random.Random) -> Player:
        return Reciter(int(knobs.rule) if informed else None, rng)


class Reciter:
    """Says what followed the last word before; until then, something new."""

    def __init__(self, period: int | None, rng: random.Random) -> None:
        self.period = period
        self.rng = rng
        self.seen: list[str] = []

    def act(self, observation: str) -> str:
        seen = re.search(r"So far ([\w ]+)", observation)
        self.seen = seen[1].split() if seen else []
        if self.seen and self.seen[-1] in self.seen[:-1]:
            return say(self.seen[self.seen.index(self.seen[-1]) + 1], f"after {self.seen[-1]}")
        fresh = [word for word in offered(observation) if word not in self.seen]
        if len(self.seen) == self.period or not fresh:
            return say(self.seen[0], "again")
        return say(self.rng.choice(fresh), "new")
