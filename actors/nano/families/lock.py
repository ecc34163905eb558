"""A lock opens when its pins are pressed in a hidden order: a pin that clicked stays, so press only what is untried."""

import random
import re
from collections.abc import Sequence

from actors.nano.families.base import Knobs, Player, offered, quoted, say
from actors.nano.program import Body

STRIDES = {"forwards": 1, "backwards": -1}


class Lock:
    name = "Lock"
    skills = ("logical deduction", "causal inference")

    def knobs(self, rng: random.Random) -> Knobs:
        size = rng.randint(4, 5)
        need = rng.randint(2, 3)
        rule = rng.choice(("mixed", *STRIDES))
        return Knobs(
            need + rng.randint(1, min(3, size + need - 4)), size, need, rule, rule != "mixed" and rng.random() < 0.4
        )

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        if knobs.rule == "mixed":
            order = f"self.order = self.rng.sample(self.actions, {knobs.need})"
        else:
            order = (
                f"first = self.rng.randrange({knobs.size})\n"
                f"self.order = [self.actions[(first + {STRIDES[knobs.rule]} * n) % {knobs.size}]"
                f" for n in range({knobs.need})]"
            )
        return Body(
            reset=f"self.actions = {quoted(words[: knobs.size])}\n{order}\nself.done = 0",
            opening=f'"Press the pins in order.{knobs.told(f"It runs {knobs.rule}.")}"',
            step='reply = "No"\nif action == self.order[self.done]:\n    self.done += 1\n    reply = "Click"',
            won=f"self.done == {knobs.need}",
            reply='f"{reply}: {action}."',
            reward=f"self.done / {knobs.need + 1}",
            solution="self.order",
        )

    def hint(self, knobs: Knobs) -> str:
        return "Press what is untried." if knobs.rule == "mixed" else f"Press what is untried. It runs {knobs.rule}."

    def player(self, knobs: Knobs, informed: bool, rng: random.Random) -> Player:
        return Picker(STRIDES.get(knobs.rule) if informed else None, rng)


class Picker:
    """Presses no pin twice in vain, and follows the order where it has been told."""

    def __init__(self, stride: int | None, rng: random.Random) -> None:
        self.stride = stride
        self.rng = rng
        self.clicked: list[str] = []
        self.failed: set[str] = set()
        self.last = ""

    def act(self, observation: str) -> str:
        pins = offered(observation)
        if re.match("Click", observation):
            self.clicked.append(self.last)
            self.failed = set()
        elif self.last:
            self.failed.add(self.last)
        self.last, thought = self.choose(pins)
        return say(self.last, thought)

    def choose(self, pins: list[str]) -> tuple[str, str]:
        if self.stride and self.clicked:
            before = self.clicked[-1]
            return pins[(pins.index(before) + self.stride) % len(pins)], f"after {before}"
        untried = [pin for pin in pins if pin not in self.failed and pin not in self.clicked]
        return self.rng.choice(untried or pins), "untried " + " ".join(untried)
