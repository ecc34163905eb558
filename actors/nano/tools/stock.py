"""The service Stock: order as many of one thing as there are of another. Several tools report a count, and only one is
right.
"""

import random
import re
from collections.abc import Sequence

from actors.nano.families.base import Player, quote_words
from actors.nano.tools.base import ServiceKnobs, Steps, ToolMethod, call, draw, drop_refused, make_clerk
from actors.nano.tools.program import ServiceBody


class Stock:
    name = "Stock"
    skills = ("data retrieval", "API orchestration", "tool selection")
    statement = re.compile(r"\w+ is right\.")

    def knobs(self, rng: random.Random) -> ServiceKnobs:
        return draw(rng, ("count", "tally", "scan", "weigh"), calls=2, retries=(2, 2))

    def body(self, knobs: ServiceKnobs, words: Sequence[str]) -> ServiceBody:
        naming = knobs.naming
        where, place = naming.where, naming.name("a")
        return ServiceBody(
            reset=f"items = rng.sample({quote_words(words)}, 5)\n"
            f"self.tasks = list(zip(items[1:], items))[:count]\n"
            f"{naming.drawn('5')}self.held = dict(zip({naming.names}, rng.sample(range(1, 10), 5)))\n"
            f"self.right = {{b: self.held[{place}] for a, b in self.tasks}}",
            message='f"Order as many {b} as there are {a}."',
            rule_sentence=knobs.write_rule("{self.rule.capitalize()} is right."),
            tools=(
                *naming.tools,
                *(
                    ToolMethod(name, f"{where}: str", f"str(self.held.get({where}, 0) + {self.error(knobs, name)})")
                    for name in knobs.among
                ),
                ToolMethod("order", "item: str, count: int", "self.write(item, count)"),
            ),
            solution=f"[call for a, b in self.tasks for call in [{naming.look('a')}"
            f'(self.rule, {{"{where}": {place}}}), ("order", {{"item": b, "count": self.right[b]}})]]',
        )

    def error(self, knobs: ServiceKnobs, tool: str) -> int:
        """Return the number that a tool adds to the true count: 0 for the right tool, different for each wrong tool."""
        return 0 if tool == knobs.rule else 1 + knobs.others.index(tool)

    def hint(self, knobs: ServiceKnobs) -> str:
        first = f"Find, then {knobs.rule}" if knobs.depth > 1 else knobs.rule.capitalize()
        return f"{first}, then order. {knobs.rule.capitalize()} is right."

    def player(self, knobs: ServiceKnobs, informed: bool, rng: random.Random) -> Player:
        def plan(request: str, left: list[str]) -> Steps:
            item, other = re.findall(r"Order as many (\w+) as there are (\w+)", request)[0]
            place = yield from knobs.naming.found(other)
            while True:
                number = yield call(left[0], **place)
                yield call("order", item=item, count=int(number))
                drop_refused(left)

        return make_clerk(plan, knobs, informed, rng)
