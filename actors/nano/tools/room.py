"""The service Room: book rooms. One of several tools makes a room ready, and only a ready room can be booked."""

import random
import re
from collections.abc import Sequence

from actors.nano.families.base import Player, quote_words
from actors.nano.tools.base import ServiceKnobs, Steps, ToolMethod, call, draw, drop_refused, make_clerk
from actors.nano.tools.program import ServiceBody


class Room:
    name = "Room"
    skills = ("error recovery", "multi-step workflows", "API orchestration")
    statement = re.compile(r"\w+ a room first\.")

    def knobs(self, rng: random.Random) -> ServiceKnobs:
        return draw(rng, ("clean", "heat", "light", "air"), calls=2)

    def body(self, knobs: ServiceKnobs, words: Sequence[str]) -> ServiceBody:
        naming = knobs.naming
        where = naming.where
        return ServiceBody(
            reset=f"items = rng.sample({quote_words(words)}, count)\n"
            f"{naming.drawn('count')}self.tasks = list(zip(items, {naming.names}))\n"
            "self.right = {b: self.rule for a, b in self.tasks}",
            message='f"Book room {a}."',
            rule_sentence=knobs.write_rule("{self.rule.capitalize()} a room first."),
            tools=(
                *naming.tools,
                *(ToolMethod(name, f"{where}: str", f'self.write({where}, "{name}")') for name in knobs.among),
                ToolMethod(
                    "book",
                    f"{where}: str",
                    f'self._state.update({{{where}: "booked"}}) or "Done." if {where} in self._state else "Not ready."',
                ),
            ),
            solution=f"[call for a, b in self.tasks for call in [{naming.look('a')}"
            f'(self.rule, {{"{where}": b}}), ("book", {{"{where}": b}})]]',
            met='state.get(b) == "booked"',
        )

    def hint(self, knobs: ServiceKnobs) -> str:
        first = f"Find, then {knobs.rule}" if knobs.depth > 1 else knobs.rule.capitalize()
        return f"{first}, then book. {knobs.rule.capitalize()} a room first."

    def player(self, knobs: ServiceKnobs, informed: bool, rng: random.Random) -> Player:
        def plan(request: str, left: list[str]) -> Steps:
            place = yield from knobs.naming.found(re.findall(r"Book room (\w+)", request)[0])
            while (yield call(left[0], **place)) != "Done.":
                drop_refused(left)
            while True:
                yield call("book", **place)

        return make_clerk(plan, knobs, informed, rng)
