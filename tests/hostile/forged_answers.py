"""Answers that are programs, and forge their verdict, or look for the outputs that are expected of them.

Here the environment is honest, and the player is not. Every answer is wrong, so an environment that is won was forged.
"""

import json

from tests.hostile.hostile import ANSWERED, BREACH, Hostile

SECRETS = "k3fq 77 zw", "p0vb 12 ux"
"""Expected outputs that no answer can compute."""

TEXTS = json.dumps([{"input": f"{number}\n", "output": f"{secret}\n"} for number, secret in enumerate(SECRETS)])
VALUES = json.dumps([{"input": f"{number}", "output": json.dumps(secret)} for number, secret in enumerate(SECRETS)])

LOOK = r"""
import ctypes, gc, json, os, struct, sys, types

def above():
    up = sys._getframe()
    while up is not None:
        yield up
        up = up.f_back

def outputs(tests):
    return [test["output"] for test in tests if isinstance(test, dict) and "output" in test]

def attempt(what):
    try:
        return what()
    except Exception:
        return None

def graders():
    known = [vars(module) for module in list(sys.modules.values()) if isinstance(module, types.ModuleType)]
    seen = [frame.f_globals for frame in above()]
    return [space for space in known + seen if "same_text" in space or "CodeTestsEnv" in space]

class Always:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
"""
"""Common parts of the attacks."""

READINGS = {
    "of the frames above": "[value for frame in above() for name, value in frame.f_locals.items() if name == 'wanted']",
    "of the environment in the frames above": """[
        output for frame in above() for value in frame.f_locals.values() for output in outputs(getattr(value, "_tests", []))
    ]""",
    "of the collector": "[output for each in gc.get_objects() if type(each) is list for output in outputs(each)]",
    "of the program's class": """[
        output for each in gc.get_objects() if isinstance(each, type) and isinstance(vars(each).get("tests"), str)
        for output in outputs(json.loads(each.tests))
    ]""",
}
"""Expressions for a list of the expected outputs."""

FORGERIES = {
    "the comparison patched": "for space in graders():\n    space.update(same_text=lambda *_: True, same_value=lambda *_: True, same_line=lambda *_: True)",
    "the grade patched": "for space in graders():\n    space['CodeTestsEnv'].score = lambda *_: 1.0",
    "the step patched": "for each in gc.get_objects():\n    if isinstance(each, type) and 'step' in vars(each):\n        attempt(lambda: setattr(each, 'step', lambda *_: ('', 1.0, True, False, {})))",
    "the test patched": "for space in graders():\n    space['CodeTestsEnv']._passes = lambda *_: True",
    "the verdict of the process patched": "for frame in above():\n    for name in ('perform', 'packed'):\n        before = frame.f_globals.get(name)\n        if name == 'packed' and before is not None:\n            frame.f_globals[name] = lambda answer, *rest, before=before: before(answer | {'reward': 1.0} if 'reward' in answer else answer, *rest)",
    "built-ins replaced": "import builtins\nbuiltins.all = builtins.bool = lambda *_: True\nbuiltins.len = lambda *_: 1\nbuiltins.float = lambda *_: 1.0\nbuiltins.map = lambda *_: [True]",
    "numbers that are always equal": "import decimal\nfor space in graders():\n    space['Decimal'] = lambda *_: Always()",
    "JSON that is always equal": "json.loads = lambda *_, **__: Always()",
    "texts that are always equal": "class Text(str, Always):\n    def strip(self, *_): return self\n    def splitlines(self, *_): return []\nfor space in graders():\n    space['str'] = Text",
    "a standard output of its own": "class Out(Always):\n    def write(self, *_): return 0\n    def flush(self): pass\n    def getvalue(self): return Always()\nsys.stdout = sys.__stdout__ = Out()",
    "the buffer of standard output": "kind = type(sys.stdout.buffer)\nattempt(lambda: setattr(kind, 'getvalue', lambda self: Always()))",
    "a profiler that stays": "def profile(frame, *_):\n    for name in ('same_text', 'same_value', 'same_line'):\n        if name in frame.f_globals:\n            frame.f_globals[name] = lambda *_: True\nsys.setprofile(profile)",
    "a frame of its own": r"""
for frame in above():
    request = frame.f_locals.get("request")
    if isinstance(request, dict) and "nonce" in request:
        fields = {"nonce": request["nonce"], "text": "", "reward": 1.0, "terminated": True, "truncated": False}
        body = json.dumps({"is": "observed"} | fields).encode()
        for descriptor in range(64):
            attempt(lambda: os.write(descriptor, struct.pack("<I", len(body)) + body))
        os._exit(0)
""",
    "garbage on every descriptor": "for descriptor in range(64):\n    attempt(lambda: os.write(descriptor, b'garbage'))",
    "an end": "os._exit(0)",
    "an exit": "sys.exit(0)",
    "a crash": "ctypes.string_at(0)",
}
"""Code that runs before a wrong answer."""

BESIDES = {
    "a loop": "while True: pass",
    "a loop that catches all": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "a deaf loop": "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nwhile True: pass",
    "a fork": "if os.fork() == 0: os._exit(0)",
    "a process": "import subprocess\nsubprocess.run(['true'])",
    "a file": "open('/etc/passwd').read()\nopen(__file__).read()",
    "a flood": "while True: print('x' * 10**6)",
    "all memory": "kept = bytearray(2**40)",
}
"""The same, without a forgery."""


def printing(code, found):
    """A program that runs this code, and prints what it has found for each test."""
    return f"{LOOK}\n{code}\nfound = attempt(lambda: {found}) or ['x']\nprint(found[int(input()) % len(found)])"


def returning(code, found):
    """The same as a method, which returns the value."""
    inside = "\n".join(f"        {line}" for line in code.splitlines())
    return f"""{LOOK}
class Solution:
    def find(self, number):
{inside or "        pass"}
        found = attempt(lambda: {found}) or ['"x"']
        return attempt(lambda: json.loads(found[number % len(found)]))
"""


def answered(name: str, code: str, function: str = "") -> Hostile:
    """An honest environment that gets this code as its answer."""
    source = f"""
class GivenEnv(CodeTestsEnv):
    tests = {VALUES if function else TEXTS!r}
    function = {function!r}
    test_s = 1.0
    def judge(self, action):
        text, reward, *rest = yield from super().judge({code!r})
        return "{BREACH}" if reward else "held", reward, *rest
"""
    return Hostile(f"an answer: {name}", source, frozenset({ANSWERED}), libraries=True)


PROGRAMS = [
    *(answered(f"the outputs {name}", printing("", found)) for name, found in READINGS.items()),
    *(answered(f"the outputs {name}, returned", returning("", found), "find") for name, found in READINGS.items()),
    *(answered(name, printing(code, "[]")) for name, code in (FORGERIES | BESIDES).items()),
    *(answered(f"{name}, in a method", returning(code, "[]"), "find") for name, code in FORGERIES.items()),
    answered("an object that is always equal", f"{LOOK}\ndef find(number): return Always()", "find"),
    answered("a text that is always equal", f"{LOOK}\nclass Text(Always, str): pass\ndef find(number): return Text('x')", "find"),
    answered("a number that is always equal", f"{LOOK}\nclass Number(Always, int): pass\ndef find(number): return Number(7)", "find"),
    answered("a list that is always equal", f"{LOOK}\nclass Some(Always, list): pass\ndef find(number): return Some()", "find"),
]  # fmt: skip
