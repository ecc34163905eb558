"""A small sound program with tools, and what is wrong with it after one edit: the stage, words of the reason."""

from tests.actors.odd_programs import SEARCH

GOOD = '''
class CodesEnv(ToolUseBaseEnv):
    def reset(self, seed: int):
        rng = random.Random(seed)
        names = rng.sample(["Ada", "Bo", "Cleo", "Dan"], 3)
        self.wanted, self.other = names[:2]
        self.codes = {name: str(rng.randrange(1000, 10_000)) for name in names}
        self._state = {"seen": [], "sent": {}}
        self._user_messages = [f"Look up the code of {self.wanted}.", f"Send it to {self.other}, by mail."]
        self._message_criteria = [
            lambda s: self.wanted in s["seen"],
            lambda s: s["sent"].get(self.other) == self.codes[self.wanted],
        ]
        return self._user_messages[0], {}

    def tool_code(self, name: str) -> str:
        """Tell the code of a person."""
        if name not in self.codes:
            return f"Nobody is called {name}."
        self._state["seen"].append(name)
        return f"The code is {self.codes[name]}."

    def tool_send(self, to: str, code: str, by: Literal["mail", "post"]) -> str:
        """Send a code to a person."""
        if to not in self.codes or by == "post":
            return "That cannot be sent."
        self._state["sent"][to] = code
        return "It is sent."

    def tool_ring(self, name: str) -> str:
        """Ring a person."""
        return "Nobody answers."

    def solution(self):
        return [
            ("code", {"name": self.wanted}),
            ("send", {"to": self.other, "code": self.codes[self.wanted], "by": "mail"}),
        ]
'''

TURNSTILE = '''
class TurnstileEnv(ToolUseBaseEnv):
    def reset(self, seed: int):
        self._state = {"turns": 0}
        self._user_messages = ["Let three persons pass."]
        self._message_criteria = [lambda s: s["turns"] == 3]
        return self._user_messages[0], {}

    def turn(self) -> str:
        self._state["turns"] += 1
        return "It turns."

    def tool_push(self, way: Literal["in", "out"]) -> str:
        """Push it."""
        return self.turn()

    def tool_pull(self, way: Literal["in", "out"]) -> str:
        """Pull it."""
        return self.turn()

    def solution(self):
        return ["push(way='in')"] * 3
'''
"""A service that heeds nothing but the number of calls."""

OPEN_COUNTER = '''
class CounterEnv(ToolUseBaseEnv):
    """In the paper's style; five instructions, of which the first is met at reset."""

    def reset(self, seed=None):
        self._state = {"windows": {"left": "open", "right": "shut"}, "calls": [], "price": {"stamp": 2, "box": 7}}
        text = {"type": "string"}
        self._tools = {
            "window": {"description": "Open or shut a window.", "parameters": {"type": "object", "properties": {
                "name": text, "to": {"type": "string", "enum": ["open", "shut"]}}, "required": ["name", "to"]}},
            "price": {"description": "Tell a price.", "parameters": {
                "type": "object", "properties": {"of": text}, "required": ["of"]}},
            "sell": {"description": "Sell something.", "parameters": {
                "type": "object", "properties": {"what": text, "price": {"type": "integer"}},
                "required": ["what", "price"]}},
        }
        self._user_messages = [
            "The left window has to be open.", "Open the right one too.", "What is the price of a box?",
            "Sell one for that.", "Now a stamp, for its price.",
        ]
        self._message_criteria = [
            lambda s: s["windows"]["left"] == "open",
            lambda s: s["windows"]["right"] == "open",
            lambda s: ("price", "box") in s["calls"],
            lambda s: ("sell", "box") in s["calls"],
            lambda s: ("sell", "stamp") in s["calls"],
        ]
        self._current_msg = 0
        return self._user_messages[0], {}

    def _advance_if_done(self):
        self._current_msg += 1
        return "[this must not be shown]"

    def _check_answer(self, answer):
        return True

    def tool_window(self, name, to):
        if name not in self._state["windows"]:
            return "Error: no such window" + self._advance_if_done()
        self._state["windows"][name] = to
        return f"It is {to}." + self._advance_if_done()

    def tool_price(self, of):
        self._state["calls"].append(("price", of))
        return f"It is {self._state['price'].get(of)}." + self._advance_if_done()

    def tool_sell(self, what, price):
        if self._state["price"].get(what) != price:
            return "Error: not sold for that" + self._advance_if_done()
        self._state["calls"].append(("sell", what))
        return "Sold." + self._advance_if_done()

    def solution(self):
        return (
            "First window(name='left', to='open'), then window(name='right', to='open'). "
            "Then price(of='box') tells 7, so sell(what='box', price=7). "
            "tool_price(of='stamp') tells 2: tool_sell(what='stamp', price=2), and submit <answer>done</answer>."
        )
'''


def changed(*edits: tuple[str, str]) -> str:
    """The sound program with these edits, of which each applies once."""
    source = GOOD
    for old, new in edits:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


RESET_END = "        return self._user_messages[0], {}\n"
FIRST = 'lambda s: self.wanted in s["seen"]'
SECOND = 'lambda s: s["sent"].get(self.other) == self.codes[self.wanted]'
SEND = '("send", {"to": self.other, "code": self.codes[self.wanted], "by": "mail"})'
LOOK = 'self._state["seen"].append(name)'
TOLD = 'return f"The code is {self.codes[name]}."'
SILENT = 'return "Nobody answers."'


def declared(schema: str, name: str = "ring") -> str:
    """It declares its tools, the last one with this schema."""
    text = '{"type": "string"}'
    whole = (
        f'        one = {{"type": "object", "properties": {{"name": {text}}}, "required": ["name"]}}\n'
        f'        three = {{"type": "object", "properties": {{"to": {text}, "code": {text}, "by": {text}}}, '
        '"required": ["to", "code", "by"]}\n'
        f'        self._tools = {{"code": {{"parameters": one}}, "send": {{"parameters": three}}, '
        f'"{name}": {{"parameters": {schema}}}}}\n'
    )
    return changed((RESET_END, whole + RESET_END))


MANY = "".join(f'    def tool_t{n}(self, a: str) -> str:\n        return "No."\n\n' for n in range(14))
NOTHING_TO_CHOOSE = (
    ('by: Literal["mail", "post"]', "by: str"),
    ('if to not in self.codes or by == "post":\n            return "That cannot be sent."\n        ', ""),
)

FAULTS = {
    "no Python": ("parse", "SyntaxError", changed(("class CodesEnv(ToolUseBaseEnv):", "class CodesEnv("))),
    "a game": ("class", "does not extend ToolUseBaseEnv", SEARCH),
    "no solution": ("interface", "has no method solution", changed(("def solution", "def answer"))),
    "too many tools": ("interface", "2 to 16 methods", changed(("    def solution", MANY + "    def solution"))),
    "a constructor that fails": ("construct", "ZeroDivisionError",
        changed(("    def reset", "    def __init__(self):\n        1 / 0\n\n    def reset"))),
    "a parameter under another name": ("schema", "no parameter of that name",
        declared('{"type": "object", "properties": {"person": {"type": "string"}}, "required": ["person"]}')),
    "a tool without a method": ("schema", "there is no method", declared("one", name="wave")),
    "a keyword that nobody checks": ("schema", "pattern: this keyword is not supported",
        declared('{"type": "object", "properties": {"name": {"type": "string", "pattern": "A"}}}')),
    "a schema that is none": ("schema", "must be an object", declared("7")),
    "a parameter without a type": ("schema", "needs an annotation",
        changed(("def tool_ring(self, name: str)", "def tool_ring(self, name)"))),
    "a long description": ("schema", "at most 1000 characters",
        changed(('"""Ring a person."""', f'"""{"Ring " * 300}"""'))),
    "an empty instruction": ("episode", "_user_messages[1] is empty",
        changed(('f"Send it to {self.other}, by mail."', '" "'))),
    "a criterion too few": ("episode", "has 1 for 2", changed((f"            {SECOND},\n", ""))),
    "a criterion that is no function": ("episode", "_message_criteria[1] must be a function",
        changed((SECOND, "True"))),
    "a state that is no dict": ("episode", "_state must be a dict",
        changed(('self._state = {"seen": [], "sent": {}}', "self._state = []"))),
    "another first observation": ("episode", "must be the first of _user_messages",
        changed((RESET_END, RESET_END.replace("self._user_messages[0]", "'Hello!'")))),
    "an instruction that is met at reset": ("gate", "instruction 2 of 2 is met before anything is done",
        changed((SECOND, 'lambda s: self.wanted not in s["sent"]'))),
    "a state of another type than its criterion reads": ("gate", "criterion of instruction 2 raises on the fresh state",
        changed(('"sent": {}', '"sent": []'))),
    "a criterion that changes the state": ("gate", "criterion of instruction 1 changes the state",
        changed((FIRST, f'lambda s: s["sent"].update(asked=len(s["sent"]) + 1) or {FIRST[10:]}'))),
    "a value of another type than its criterion wants": ("solution", "1 of 2 instructions are done",
        changed(('self._state["sent"][to] = code', 'self._state["sent"][to] = int("0" + code)'),
                ('return "It is sent."', 'return f"{code} is sent."'))),
    "a tool that always raises": ("solution", "KeyError", changed((LOOK, "self._state['lookups'] += 1"))),
    "a tool that never succeeds": ("solution", "0 of 2 instructions are done", changed((LOOK, "pass"))),
    "a criterion that raises in a play": ("solution", "TypeError",
        changed((FIRST, 'lambda s: s["seen"] and len(s["seen"][0]["name"]) > 0'))),
    "grading of its own": ("solution", "0 of 2 instructions are done", changed((FIRST, "lambda s: False"),
        ("    def solution", "    def _check_answer(self, answer):\n        return True\n\n    def solution"))),
    "a solution that is a description": ("solution", "lists no calls",
        changed(('return [\n            ("code", {"name": self.wanted}),\n            ' + SEND + ",\n        ]",
                 "return 'Look the code up and send it.'"))),
    "a solution that stops too soon": ("solution", "1 of 2 instructions are done",
        changed((f"            {SEND},\n", ""))),
    "a solution that is refused": ("solution", 'call 2 is refused: Error: by: must be one of "mail", "post"',
        changed((SEND, SEND.replace("mail", "hand")))),
    "a solution that is too long": ("solution", "take 27 turns, but a play has 25",
        changed((f"            {SEND},\n        ]", f"            {SEND},\n        ] * 13"))),
    "an instruction that the one before it meets": ("solution", "1 of 2 instructions are met already",
        changed((SECOND, 'lambda s: len(s["seen"]) > 0'))),
    "chance of the system": ("solution", "1 of 2 instructions are done",
        changed(("str(rng.randrange(1000, 10_000))", "str(random.SystemRandom().randrange(10**9))"))),
    "a tool that raises for what is unknown": ("garbage", "KeyError",
        changed(("        if name not in self.codes:\n            return f\"Nobody is called {name}.\"\n", ""))),
    "an instruction that nonsense meets": ("garbage", "a meaningless call meets instruction 1: ring(",
        changed((FIRST, 'lambda s: "x" in s'), (SILENT, 'self._state["x"] = 1\n        ' + SILENT),
                ('("code", {"name": self.wanted}),', '("ring", {"name": "x"}),'))),
    "a tool that raises for what is known": ("random", "RuntimeError",
        changed((SILENT, "if name in self.codes:\n            raise RuntimeError\n        " + SILENT))),
    "a service that any calls satisfy": ("random", "random play wins", TURNSTILE),
    "a service that repetition satisfies": ("constant", "each tool with the same arguments wins",
        changed(*NOTHING_TO_CHOOSE, ('"sent": {}', '"sent": []'), ('["sent"][to] = code', '["sent"].append(code)'),
                (FIRST, 'lambda s: s["sent"][3:] and len({*s["sent"][-4:]}) == 1'),
                (SECOND, 'lambda s: s["sent"][4:] and len({*s["sent"][-5:]}) == 1'),
                ('("code", {"name": self.wanted}),', ""), (SEND, f"*[{SEND}] * 5"))),
    "much memory": ("budget", "MiB of memory", "BIG = b'x' * (25 << 20)\n" + GOOD),
    "the clock in a result": ("repeatable", "a result was",
        changed((TOLD, TOLD.replace('."', '. {time.perf_counter_ns()}"')))),
    "the order of a set in a result": ("repeatable", "a result was",
        changed((TOLD, TOLD.replace('."', ". {[*{*'abcdefghijkl'}]}\"")))),
    "nothing but the number of calls matters": ("effect", "whatever was tried, the same happened", TURNSTILE),
}  # fmt: skip
