"""Book rooms: one of several tools makes a room ready, and no other room can be booked."""

import random
import re
from collections.abc import Sequence

from actors.nano.families.base import Player, quoted
from actors.nano.tools.base import FIND, ServiceKnobs, Steps, call, clerk, draw, refused
from actors.nano.tools.program import ServiceBody, ToolMethod


class Room:
    name = "Room"
    skills = ("error recovery", "multi-step workflows", "API orchestration")
    statement = re.compile(r"\w+ a room first\.")

    def knobs(self, rng: random.Random) -> ServiceKnobs:
        return draw(rng, ("clean", "heat", "light", "air"), calls=2, retry=1)

    def body(self, knobs: ServiceKnobs, words: Sequence[str]) -> ServiceBody:
        deep = knobs.depth > 1
        where = "number" if deep else "item"
        look = '("find", {"item": a}), ' if deep else ""
        return ServiceBody(
            reset=f"items = rng.sample({quoted(words)}, {knobs.need})\n"
            + (f'self.number = dict(zip(items, rng.sample("123456789", {knobs.need})))\n' if deep else "")
            + f"self.tasks = list({'self.number.items()' if deep else 'zip(items, items)'})\n"
            f'self.right = {{b: "{knobs.rule}" for a, b in self.tasks}}',
            message='f"Book room {a}."',
            told=knobs.told(f"{knobs.rule.capitalize()} a room first."),
            locks=knobs.locks,
            tools=(
                *((FIND,) if deep else ()),
                *(ToolMethod(name, f"{where}: str", f'self.write({where}, "{name}")') for name in knobs.among),
                ToolMethod(
                    "book",
                    f"{where}: str",
                    f'self._state.update({{{where}: "booked"}}) or "Done." if {where} in self._state else "Not ready."',
                ),
            ),
            solution=f"[call for a, b in self.tasks for call in [{look}"
            f'("{knobs.rule}", {{"{where}": b}}), ("book", {{"{where}": b}})]]',
            met='state.get(b) == "booked"',
        )

    def hint(self, knobs: ServiceKnobs) -> str:
        first = f"Find, then {knobs.rule}" if knobs.depth > 1 else knobs.rule.capitalize()
        return f"{first}, then book. {knobs.rule.capitalize()} a room first."

    def player(self, knobs: ServiceKnobs, informed: bool, rng: random.Random) -> Player:
        def plan(request: str, left: list[str]) -> Steps:
            place, where = re.findall(r"Book room (\w+)", request)[0], "item"
            if knobs.depth > 1:
                place, where = (yield call("find", item=place)), "number"
            while (yield call(left[0], **{where: place})) != "Done.":
                refused(left)
            while True:
                yield call("book", **{where: place})

        return clerk(plan, knobs, informed, rng)
