"""Pay one of the bills of an account: list them, choose by a rule, pay; a wrong payment is refused."""

import random
import re
from collections.abc import Sequence

from actors.nano.families.base import Player, quoted
from actors.nano.tools.base import ServiceKnobs, Steps, call, clerk, draw, refused
from actors.nano.tools.program import ServiceBody, ToolMethod

RULES = {"oldest": ("min", 1), "newest": ("max", 1), "smallest": ("min", 2), "largest": ("max", 2)}
"""By rule: which extreme, of day (1) or sum (2)."""

CODES = "self.code = {bill[0]: rng.randrange(10) for bills in self.bills.values() for bill in bills}\n"


class Account:
    name = "Account"
    skills = ("data retrieval", "error recovery")
    statement = re.compile(r"Pay the \w+\.")

    def knobs(self, rng: random.Random) -> ServiceKnobs:
        return draw(rng, tuple(RULES), calls=2, retry=1)

    def body(self, knobs: ServiceKnobs, words: Sequence[str]) -> ServiceBody:
        deep = knobs.depth > 1
        extreme, field = RULES[knobs.rule]
        value = "self.code[b]" if deep else '"paid"'
        look = '("ask", {"bill": b}), ' if deep else ""
        code = ', "code": self.code[b]' if deep else ""
        return ServiceBody(
            reset="draw = lambda: rng.sample(range(1, 10), 3)\n"
            f"names = rng.sample({quoted(words)}, {knobs.need})\n"
            "self.bills = {name: list(zip([10 * n + m for m in draw()], draw(), draw()))"
            " for n, name in enumerate(names, 1)}\n"
            f"self.tasks = [(name, {extreme}(bills, key=lambda bill: bill[{field}])[0])"
            " for name, bills in self.bills.items()]\n"
            + (CODES if deep else "")
            + f"self.right = {{b: {value} for a, b in self.tasks}}",
            message='f"Pay a bill of {a}."',
            told=knobs.told(f"Pay the {knobs.rule}."),
            locks=knobs.locks,
            tools=(
                ToolMethod(
                    "bills",
                    "name: str",
                    '", ".join(f"{n} day {d} sum {s}" for n, d, s in self.bills.get(name, []))',
                ),
                *((ToolMethod("ask", "bill: int", "str(self.code.get(bill))"),) if deep else ()),
                ToolMethod("pay", "bill: int, code: int", "self.write(bill, code)")
                if deep
                else ToolMethod("pay", "bill: int", 'self.write(bill, "paid")'),
            ),
            solution=f'[call for a, b in self.tasks for call in [("bills", {{"name": a}}), {look}'
            f'("pay", {{"bill": b{code}}})]]',
        )

    def hint(self, knobs: ServiceKnobs) -> str:
        return f"List the bills, {'ask, ' if knobs.depth > 1 else ''}then pay. Pay the {knobs.rule}."

    def player(self, knobs: ServiceKnobs, informed: bool, rng: random.Random) -> Player:
        def plan(request: str, left: list[str]) -> Steps:
            listed = yield call("bills", name=re.findall(r"Pay a bill of (\w+)", request)[0])
            bills = [tuple(map(int, found)) for found in re.findall(r"(\d+) day (\d+) sum (\d+)", listed)]
            while True:
                number = chosen(left[0], bills)
                code = {"code": int((yield call("ask", bill=number)))} if knobs.depth > 1 else {}
                yield call("pay", bill=number, **code)
                while len(left) > 1 and chosen(left[0], bills) == number:
                    refused(left)

        return clerk(plan, knobs, informed, rng)


def chosen(rule: str, bills: Sequence[tuple[int, ...]]) -> int:
    """The number of the bill that a rule means."""
    extreme, field = RULES[rule]
    return (min if extreme == "min" else max)(bills, key=lambda bill: bill[field])[0]
