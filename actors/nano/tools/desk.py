"""The service Desk: serve requests, and decline those that no tool serves or that a rule forbids."""

import random
import re
from collections.abc import Sequence

from actors.nano.families.base import Player, quote_words
from actors.nano.tools.base import ServiceKnobs, Steps, ToolMethod, call, draw, drop_refused, make_clerk
from actors.nano.tools.program import ServiceBody

VERBS = ("send", "fix", "sell", "lend", "wash")


class DeskFamily:
    name = "Desk"
    skills = ("tool selection", "state modification")
    statement = re.compile(r"Never \w+\.")

    def knobs(self, rng: random.Random) -> ServiceKnobs:
        return draw(rng, VERBS[:4], calls=1)

    def body(self, knobs: ServiceKnobs, words: Sequence[str]) -> ServiceBody:
        naming = knobs.naming
        where = naming.where
        return ServiceBody(
            reset=f"items = rng.sample({quote_words(words)}, count)\n"
            f"{naming.drawn('count')}verbs = rng.choices({quote_words([*knobs.among, VERBS[4]])}, k=count)\n"
            f"verbs[rng.randrange(count)] = self.rule\n"
            f'self.tasks = [(f"{{verb}} {{item}}", {naming.name("item")}) for verb, item in zip(verbs, items)]\n'
            f'self.right = {{b: a.split()[0] if a.split()[0] in {quote_words(knobs.others)} else "decline_request"'
            " for a, b in self.tasks}",
            message='f"Please {a}."',
            rule_sentence=knobs.write_rule("Never {self.rule}."),
            tools=(
                *naming.tools,
                *(
                    ToolMethod(name, f"{where}: str", f'self.write({where}, "{name}")')
                    for name in (*knobs.among, "decline_request")
                ),
            ),
            solution=f"[call for a, b in self.tasks for call in [{naming.look('a.split()[1]')}"
            f'(self.right[b], {{"{where}": b}})]]',
        )

    def hint(self, knobs: ServiceKnobs) -> str:
        find = "Find it first. " if knobs.depth > 1 else ""
        return f"{find}Never {knobs.rule}. Decline what no tool does."

    def player(self, knobs: ServiceKnobs, informed: bool, rng: random.Random) -> Player:
        def plan(request: str, left: list[str]) -> Steps:
            verb, item = re.findall(r"Please (\w+) (\w+)", request)[0]
            place = yield from knobs.naming.found(item)
            while True:
                serve = verb in knobs.among and verb != left[0]
                yield call(verb if serve else "decline_request", **place)
                if serve:  # the call was refused, so the rule forbids this verb
                    left[:] = [verb]
                else:
                    drop_refused(left)

        return make_clerk(plan, knobs, informed, rng)
