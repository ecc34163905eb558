"""The service Account: list the bills of an account, choose one by a rule, and pay it. A wrong payment is refused."""

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

KINDS = ("late", "due", "new", "old")
CODES = "self.code = {bill: rng.randrange(10) for bills in self.bills.values() for bill in bills.values()}\n"


class Account:
    name = "Account"
    skills = ("data retrieval", "error recovery")
    statement = re.compile(r"Pay the \w+ one\.")

    def knobs(self, rng: random.Random) -> ServiceKnobs:
        return draw(rng, KINDS, calls=2, retries=(1, 2))

    def body(self, knobs: ServiceKnobs, words: Sequence[str]) -> ServiceBody:
        deep = knobs.depth > 1
        value = "self.code[b]" if deep else '"paid"'
        look = '("ask", {"bill": b}), ' if deep else ""
        code = ', "code": self.code[b]' if deep else ""
        return ServiceBody(
            reset=f"kinds = [self.rule, {quote_words(knobs.others)[1:]}\n"
            f"names = rng.sample({quote_words(words)}, count)\n"
            "self.bills = {name: {kind: 10 * n + m for kind, m in zip(kinds, rng.sample(range(10), 4))}"
            " for n, name in enumerate(names, 1)}\n"
            "self.tasks = [(name, bills[self.rule]) for name, bills in self.bills.items()]\n"
            + (CODES if deep else "")
            + f"self.right = {{b: {value} for a, b in self.tasks}}",
            message='f"Pay a bill of {a}."',
            rule_sentence=knobs.write_rule("Pay the {self.rule} one."),
            tools=(
                ToolMethod("bills", "name: str", list_entries("self.bills.get(name, {})")),
                *((ToolMethod("ask", "bill: int", "str(self.code.get(bill))"),) if deep else ()),
                ToolMethod("pay", "bill: int, code: int", "self.write(bill, code)")
                if deep
                else ToolMethod("pay", "bill: int", 'self.write(bill, "paid")'),
            ),
            solution=f'[call for a, b in self.tasks for call in [("bills", {{"name": a}}), {look}'
            f'("pay", {{"bill": b{code}}})]]',
        )

    def hint(self, knobs: ServiceKnobs) -> str:
        return f"List the bills, {'ask, ' if knobs.depth > 1 else ''}then pay. Pay the {knobs.rule} one."

    def player(self, knobs: ServiceKnobs, informed: bool, rng: random.Random) -> Player:
        def plan(request: str, left: list[str]) -> Steps:
            bills = parse_entries((yield call("bills", name=re.findall(r"Pay a bill of (\w+)", request)[0])))
            while True:
                number = int(bills[left[0]])
                code = {"code": int((yield call("ask", bill=number)))} if knobs.depth > 1 else {}
                yield call("pay", bill=number, **code)
                drop_refused(left)

        return make_clerk(plan, knobs, informed, rng)
