"""The service Match: set one thing to the mode that another thing has at the right time.

A tool lists the other thing's modes at several times.
"""

import random
import re
from collections.abc import Sequence

from actors.nano.families.base import Player, quote_words
from actors.nano.tools.base import (
    ServiceKnobs,
    Steps,
    ToolMethod,
    call,
    draw,
    drop_refused,
    list_entries,
    make_clerk,
    parse_entries,
)
from actors.nano.tools.program import ServiceBody

MODES = ("low", "mid", "high", "max")
TIMES = ("day", "night", "trip", "rest")


class Match:
    name = "Match"
    skills = ("state modification", "multi-step workflows")
    statement = re.compile(r"Take the \w+ mode\.")

    def knobs(self, rng: random.Random) -> ServiceKnobs:
        return draw(rng, TIMES, calls=2)

    def body(self, knobs: ServiceKnobs, words: Sequence[str]) -> ServiceBody:
        naming = knobs.naming
        where, place = naming.where, naming.name("a")
        return ServiceBody(
            reset=f"items = rng.sample({quote_words(words)}, 5)\n"
            f"self.tasks = list(zip(items[1:], items))[:count]\n"
            f"{naming.drawn('5')}times = [self.rule, {quote_words(knobs.others)[1:]}\n"
            f"modes = lambda: dict(zip(times, rng.sample({quote_words(MODES)}, {len(knobs.among)})))\n"
            f"self.mode = {{a: modes() for a in {naming.names}}}\n"
            f"self.right = {{b: self.mode[{place}][self.rule] for a, b in self.tasks}}",
            message='f"Set {b} by {a}."',
            rule_sentence=knobs.write_rule("Take the {self.rule} mode."),
            tools=(
                *naming.tools,
                ToolMethod("read", f"{where}: str", list_entries(f"self.mode.get({where}, {{}})")),
                ToolMethod("set", f"item: str, mode: Literal{quote_words(MODES)}", "self.write(item, mode)"),
            ),
            solution=f"[call for a, b in self.tasks for call in [{naming.look('a')}"
            f'("read", {{"{where}": {place}}}), ("set", {{"item": b, "mode": self.right[b]}})]]',
        )

    def hint(self, knobs: ServiceKnobs) -> str:
        return f"{'Find, then read' if knobs.depth > 1 else 'Read'}, then set. Take the {knobs.rule} mode."

    def player(self, knobs: ServiceKnobs, informed: bool, rng: random.Random) -> Player:
        def plan(request: str, left: list[str]) -> Steps:
            item, other = re.findall(r"Set (\w+) by (\w+)", request)[0]
            modes = parse_entries((yield call("read", **(yield from knobs.naming.found(other)))))
            while True:
                yield call("set", item=item, mode=modes[left[0]])
                drop_refused(left)

        return make_clerk(plan, knobs, informed, rng)
