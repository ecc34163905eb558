"""Programs that hold an item of their own (mathematics, choices, programs on tests), on rows with known answers."""

import base64
import builtins
import json
import os
import pickle
import time
import zlib
from contextlib import suppress

import msgspec
import pytest
import trio

from actors.sandbox import host, open_sandbox
from actors.sandbox.host import widen_limits
from actors.sandbox.inside import execution
from actors.sandbox.inside.libraries import LIBRARIES, answers
from actors.sandbox.inside.libraries.answers import read_letter
from actors.sandbox.wire import LoadProgram, Reset, Step
from spade.config import Library
from spade.config import Sandbox as Limits
from spade.errors import RunError
from spade.protocol import Faulted, Needs, Observed
from tests.actors.odd_programs import children_of, play, until, zygotes_of

LIMITS = Limits(load_s=60.0, step_s=30.0, libraries=("answers", "code"))


@pytest.fixture(scope="module")
def kept_limits():
    return LIMITS


def program(base, **attributes):
    return "\n".join([f"class GivenEnv({base}):", *(f"    {name} = {value!r}" for name, value in attributes.items())])


async def verdicts(sandbox, rows):
    """For each name the last answer to a program's one action."""
    found = {}

    async def one(name, source, action):
        found[name] = (await play(sandbox, source, action, name=name))[-1]

    async with trio.open_nursery() as nursery:
        for name, (source, action) in rows.items():
            nursery.start_soon(one, name, source, action)
    return {name: last.kind if isinstance(last, Faulted) else last.reward for name, last in found.items()}


async def test_a_library_program_asks_the_same_at_each_start():
    """Some generators iterate over sets of strings. Each start of a process drew their order anew."""
    source = program("MathAnswerEnv", answer="1") + "\n    question = ' '.join(set(map(str, range(40))))"
    questions = set()
    for _ in range(2):
        async with open_sandbox(LIMITS) as sandbox:
            first = await sandbox.open("e", source, 1, 3)
            assert isinstance(first, Observed), first
            questions.add(first.observation)
    assert len(questions) == 1


# ---------------------------------------------------------------- mathematics and choices

MATHS = [
    ("70", "70", 1), ("70", r"so it is \boxed{70}", 1), ("70", "070.0", 1), ("1/2", r"\frac{2}{4}", 1),
    ("70", "71", 0), ("70", "", 0), ("70", "nonsense", 0), ("70", r"\boxed{}", 0), ("70", "70 or 71 or 72", 0),
    (r"\sqrt{8}", r"2\sqrt{2}", 1),
    *[("70", said, 1) for said in (
        "70.", "70 .", "070.", "70,", "70;", "70\u00b0", "**70**", "n=70.", r"70\ ", r"70 \pmod{1000}",
        r"70\;(\bmod\;1000)", r"70\quad\pmod{1000}", r"70 \pmod{1,000}", r"70 \pmod {1{,}000}", r"70\pmod{10^3}",
        r"70 \bmod 1000",
        "70 (mod 1000)", r"70 (\text{mod } 1000)", r"70 \operatorname{mod} 1000", r"\textsf{70}", r"\mathsf{70}",
        r"\hbox{70}", r"\Large{70}", r"\rm{70}", r"{\Large 70}",
        r"\boldsymbol{70}", r"\underline{70}", r"\emph{70}", r"70~\text{cm}", r"\text{The answer is } 70.", r"70^\circ",
        r"\displaystyle 70", r"\equiv 70 \pmod{1000}", r"\frac{140}{2}.", "70%",
        r"\text{The answer is } 70", r"\text{Answer: }70", r"\underline{\textbf{70}}", r"70\degree", r"\color{red}70",
        r"\text{Answer: 70}", r"\text{Final Answer: 70}", r"\textbf{Answer: }70", r"70\checkmark", r"\pmb{70}",
        r"\ensuremath{70}", r"\boxed {70}", r"\boxed{The answer is 70}", "The answer is 70",
        r"\text{The remainder is } 70", r"\mathbf{m+n=70}", r"\text{70 (mod 1000)}", r"\text{70 ways}",
        r"\Large\mathbf{70}", r"\mathbf{70^\circ}", r"\text{(070)}", r"70 \blacksquare",
        r"\text{Therefore, } 70", r"\colorbox{yellow}{70}",
        r"\text{Thus, the number of ways is } 70", "Total: 70", r"\text{The sum is 70.}", "The sum of the digits is 70",
        r"\text{Answer: }\frac{140}{2}", r"\text{Answer: } (70)",
    )],
    *[("70", said, 0) for said in (
        "70!", "7 0", "-70", "70, 71", r"1070 \pmod{1000}", r"70^2", "70.5.", "700.", ".70",
        r"\mathsf{71}", r"\hbox{71}", r"\Large{71}", r"\pmod{70}", r"\text{not }70", r"\text{The answer is not } 70",
        r"\text{Answer: 71}", r"\text{not 70}", "not 70", "The answer isn't 70", "The answer is not 70",
        "It is more than 70", r"\mathbf{x \neq 70}", "The answer is 71", "If n is 70, the answer is 71",
        "The wrong answer is 70", "no solution, 70", r"\text{at most, }70", "The answer is \\neq 70", "m, n, 70",
        "the number of primes less than 70",
    )],
]  # fmt: skip


@pytest.mark.parametrize(("answer", "said", "right"), MATHS)
def test_answers_of_mathematics_are_compared_as_mathematics(answer, said, right):
    assert type("ProblemEnv", (answers.MathAnswerEnv,), {"answer": answer})().score(said) == right


async def test_mathematics_and_choices_are_judged_in_the_sandbox(sandbox):
    number = program("MathAnswerEnv", question="?", answer="70")
    choice = program("ChoiceEnv", question="? A. x B. y", answer="B")
    rows = {
        "right": (number, r"so it is \boxed{70}"), "wrong": (number, r"70 or 71"), "no number": (number, "nonsense"),
        "choice": (choice, r"\boxed{\text{B}}"), "wrong choice": (choice, "A"),
    }  # fmt: skip
    assert await verdicts(sandbox, rows) == {"right": 1, "wrong": 0, "no number": 0, "choice": 1, "wrong choice": 0}


# The first error may be raised in a callback of the garbage collector, where Python drops it; the next ends the work.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_comparison_has_a_bound_of_processor_time_and_none_of_the_clock(monkeypatch):
    def alarm(_):
        raise AssertionError("the load decides when the clock has gone on")

    monkeypatch.setattr("signal.alarm", alarm)
    environment = type("ProblemEnv", (answers.MathAnswerEnv,), {"answer": "1/2"})()
    assert environment.score(r"\frac{2}{4}") == 1
    monkeypatch.setattr(answers, "COMPARISON_S", 0.2)
    assert environment.score(r"\sum_{n=1}^{10^{12}} \frac{1}{n^3}") == 0


def test_a_bound_of_processor_time_holds_where_its_first_error_is_swallowed():
    def work():
        end = time.process_time() + 1
        while time.process_time() < end:
            pass

    def deaf_work():
        with suppress(answers.LateError):
            work()
        work()

    with pytest.raises(answers.LateError), answers.limit_processor_time(0.05):
        deaf_work()


@pytest.mark.parametrize(("said", "read"), [
    ("B", "B"), ("b", "B"), ("(B)", "B"), (r"\boxed{B}", "B"), (r"\text{B}", "B"), ("$B$", "B"), ("B.", "B"),
    ("B. Paris", "B"), ("Answer: B", "B"), ("**B**", "B"), ("the option is C", "C"), ("B) A cat", "B"),
    ("", ""), ("E", ""), ("A or B", ""), ("Apple", ""), ("nonsense", ""), ("I'd say so", ""),
])  # fmt: skip
def test_a_choice_is_read_leniently(said, read):
    assert read_letter(said, "ABCD") == read


# ---------------------------------------------------------------- programs on tests

SQUARES = json.dumps([{"input": f"{number}\n", "output": f"{number**2}\n"} for number in (2, 3, 12)])
SUMS = json.dumps([{"input": "[1, 2]\n3", "output": "6"}, {"input": "[]\n0", "output": "0"}])
PAIRS = json.dumps([{"input": "3", "output": "[1, 3]"}])
DIGITS = "7" * 9_999  # more than Python turns into a number or back by itself
LARGE = json.dumps([{"input": DIGITS, "output": DIGITS}])
ECHOES = json.dumps([{"input": json.dumps("a\u2028b\x85c", ensure_ascii=False), "output": '"a\u2028b\x85c"'}])
SEPARATED = json.dumps([{"input": "", "output": "a\u2028b"}])
LISTS = json.dumps([{"input": "3", "output": "[[1, 3]]"}])
RIGHT = "print(int(input()) ** 2)"
SUM = "class Solution:\n    def add(self, some: List[int], more: int) -> int:\n        return sum(some) + more"
MEGABYTES = {"input": "ab" * (1 << 20), "output": "ba" * (1 << 20)}
THREAD = f"""
import threading
def main():
    {RIGHT}
started = threading.Thread(target=main)
started.start()
started.join()
"""
OWN_THREAD = f"""
import threading
class Main(threading.Thread):
    def run(self):
        {RIGHT}
started = Main()
started.start()
started.join()
"""
RECURSION = f"""
import sys, threading
from functools import lru_cache
sys.setrecursionlimit(10**6)
@lru_cache(None)
def deep(n): return 0 if n == 0 else 1 + deep(n - 1)
def main():
    deep(45_000)
    {RIGHT}
threading.stack_size(1 << 27)
started = threading.Thread(target=main)
started.start()
started.join(timeout=5)
"""
DEAF = """
for _ in range(9):
    try:
        while True: pass
    except BaseException: pass
"""
LONG = "import sys\nsys.setrecursionlimit(10**6)\ndef deep(n): return 0 if n == 0 else 1 + deep(n - 1)\ndeep(20000)\n"


def hidden(tests):
    """Tests as LiveCodeBench hides them."""
    return base64.b64encode(zlib.compress(pickle.dumps(tests))).decode()


def stdin(**attributes):
    return program("CodeTestsEnv", question="Square it.", tests=SQUARES, **attributes)


def method(name="add", tests=SUMS):
    return program("CodeTestsEnv", question="Add them.", tests=tests, function=name)


WISH = """
class WishEnv:  # no ChoiceEnv
    def reset(self, seed):
        return "start", {}
    def step(self, action):
        frame = sys._getframe()
        while "request" not in frame.f_locals:
            frame = frame.f_back
        wanted = {"is": "wanted", "code": "", "function": "", "given": "", "seconds": 9, "most_bytes": 9}
        body = json.dumps(wanted | {"nonce": frame.f_locals["request"]["nonce"]}).encode()
        os.write(24, len(body).to_bytes(4, "little") + body)
        while True: pass
"""
"""A program of no tests, though of the zygote of libraries, that wants code executed."""

PROGRAMS = {
    "right": (stdin(), RIGHT, 1),
    "read as bytes": (stdin(), "import sys\nprint(int(sys.stdin.buffer.readline()) ** 2)", 1),
    "read by its number": (stdin(), "print(int(open(0).read()) ** 2)", 1),
    "read by its number as a builtin": (stdin(), "import builtins\nprint(int(builtins.open(0).read()) ** 2)", 1),
    "read by its number with io": (stdin(), "import io\nprint(int(io.open(0).read()) ** 2)", 1),
    "guarded by its name": (stdin(), f"if __name__ == '__main__':\n    {RIGHT}", 1),
    "ended by exit": (stdin(), f"{RIGHT}\nexit()\nprint('more')", 1),
    "in a thread": (stdin(), THREAD, 1),
    "in a thread with its own run": (stdin(), OWN_THREAD, 1),
    "in a thread that then raises": (stdin(), THREAD.replace(RIGHT, f"{RIGHT}; 1 / 0"), 1),
    "deep in a thread with a large stack": (stdin(), RECURSION, 1),
    "deep": (stdin(), LONG + RIGHT, 1),
    "another form of the number": (stdin(), "print(f' {int(input()) ** 2}.0 ')", 1),
    "a number of many digits": (program("CodeTestsEnv", tests=LARGE), "print(int(input()))", 1),
    "hidden tests too": (stdin(hidden=hidden(SQUARES)), RIGHT, 1),
    "wrong on hidden tests": (stdin(hidden=hidden('[{"input": "5", "output": "26"}]')), RIGHT, 0),
    "wrong": (stdin(), "print(int(input()) * 2)", 0),
    "more lines": (stdin(), f"{RIGHT}\nprint()\nprint(1)", 0),
    "nothing": (stdin(), "", 0),
    "no program": (stdin(), "the square is 4", 0),
    "exits 0 early": (stdin(), "import sys\nsys.exit(0)", 0),
    "raises": (stdin(), "1 / 0", 0),
    "loops": (stdin(test_s=0.3), "while True: pass", 0),
    "loops and catches": (stdin(test_s=0.3), DEAF, 0),
    "forks": (stdin(), f"import os\nos.fork()\n{RIGHT}", 0),
    "starts a process": (stdin(), f"import subprocess\nsubprocess.run(['true'])\n{RIGHT}", 0),
    "reads a file": (stdin(), f"import pathlib\npathlib.Path('/etc/passwd').read_text()\n{RIGHT}", 0),
    "prints too much": (stdin(), "while True: print('x' * 10**6)", 0),
    "takes all memory": (stdin(), "x = bytearray(2**40)", 0),
    "ends the process": (stdin(), "import os\nos._exit(0)", 0),
    "holds signals off": (stdin(test_s=0.3), "import signal\nsignal.signal(14, signal.SIG_IGN)\nwhile True: pass", 0),
    "marks the interpreter": (stdin(), f"{RIGHT}\nassert not hasattr(math, 'MARK')\nmath.MARK = 1", 1),
    "prints much": (stdin(), f"print(' ' * 2000)\n{RIGHT}", 1),
    "reads and prints megabytes": (program("CodeTestsEnv", tests=json.dumps([MEGABYTES])), "print(input()[::-1])", 1),
    "a method": (method(), SUM, 1),
    "a method that is wrong": (method(), SUM.replace("+ more", ""), 0),
    "a method that is missing": (method("sub"), SUM, 0),
    "a tuple for a list": (method("pair", PAIRS), "class Solution:\n    def pair(self, n): return (1, n)", 1),
    "a method of a number of many digits": (method("same", LARGE), "def same(n): return n", 1),
    "a list of tuples": (method("pair", LISTS), "def pair(n): return [(1, n)]", 0),
    "numbers of numpy": (method("pair", PAIRS), "import numpy\ndef pair(n): return [numpy.int64(1), numpy.int8(n)]", 1),
    "a function": (method(), "def add(some, more): return sum(some) + more", 1),
    "a wish": (WISH, "", "protocol"),
    "builtins": (stdin(), f"assert pow(3, 4, 5) == 1 and compile('1', '', 'eval') and not abs(0)\n{RIGHT}", 1),
    "names of the harness": (stdin(), f"assert loads('[1]') and itemgetter(0)([date.today()])\n{RIGHT}", 1),
    "a method with a power": (method(), "def add(some, more): return pow(sum(some) + more, 1, 1000)", 1),
    "a separator within a line": (method("same", ECHOES), "def same(text): return text", 1),
    "a separator within the output": (program("CodeTestsEnv", tests=SEPARATED), "print('a\\u2028b')", 1),
    "half of the tests": (stdin(pays="score", hidden='[{"input": "5", "output": "26"}]'), RIGHT, 0.75),
}  # fmt: skip


async def test_programs_are_run_on_their_tests(sandbox):
    found = await verdicts(sandbox, {name: (source, action) for name, (source, action, _) in PROGRAMS.items()})
    assert found == {name: wanted for name, (*_, wanted) in PROGRAMS.items()}


STARRED = (
    "string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics", "itertools",
    "functools", "operator", "io", "sys", "json", "builtins", "typing",
)  # fmt: skip
"""The modules of which LiveCodeBench's harness imports all names, in its order (commit 15808c76)."""


def test_code_finds_exactly_the_names_of_livecodebenchs_harness_and_no_builtin_is_another_thing():
    expected = {}
    for module in STARRED:
        exec(f"from {module} import *", expected)
    for module in STARRED[:-2]:
        exec(f"import {module}", expected)
    del expected["__builtins__"]
    given = execution.make_namespace("solution")
    assert given.pop("__name__") == "solution"
    assert given.keys() == expected.keys()
    assert [name for name in expected if given[name] is not expected[name]] == []
    own = {name: value for name, value in vars(builtins).items() if not name.startswith("_")}
    assert [name for name, value in own.items() if given[name] is not value] == []


async def test_executions_end_with_the_play_and_with_the_deadline_of_the_step():
    def children():
        return sum(len(children_of(zygote)) for zygote in zygotes_of(os.getpid()))

    slow = f"from time import process_time\nwhile process_time() < 0.4: pass\n{RIGHT}"
    async with open_sandbox(LIMITS) as sandbox, trio.open_nursery() as nursery:
        await sandbox.open("e", stdin(test_s=20.0), 1, 1)
        nursery.start_soon(sandbox.step, "e", 1, "while True: pass")
        await until(lambda: children() == 2)
        sandbox.close("e")
        await until(lambda: children() == 0)
        sandbox.limits = msgspec.structs.replace(LIMITS, step_s=1.0)
        last = (await play(sandbox, stdin(pays="score", hidden=SQUARES), slow))[-1]
    assert last.terminated
    assert last.reward <= 2 / 6  # the other tests have failed


async def test_the_time_of_executions_counts_to_the_time_that_is_left_for_all_answers(sandbox):
    """Otherwise a program could sleep in code of its own for longer than a lease, and have its lost plays repeated."""
    source = stdin(test_s=0.5)
    process = await sandbox.child(source)
    for request in (LoadProgram(source, 1), Reset(1)):
        assert not isinstance(await process.request(request, 60.0), Faulted)
    process.left_s = 3.0
    answer = await process.request(Step("import time\ntime.sleep(60)"), 60.0)
    assert (answer.text, answer.reward) == ("Wrong.", 0.0)  # the code was late, and not the program
    assert 0 < process.left_s <= 1.5


async def test_a_problem_may_have_16_mib_of_tests(sandbox):
    many = json.dumps([{"input": "2", "output": "4", "note": "x" * (16 << 20)}])
    source = program("CodeTestsEnv", question="Square it.", tests=many)
    assert (await play(sandbox, source, RIGHT))[-1].reward == 1


# ---------------------------------------------------------------- limits, and what is not there


async def test_an_episode_gets_the_seconds_and_the_memory_that_it_needs(monkeypatch):
    monkeypatch.setattr(host, "RUNNER_BYTES", 8 << 30)
    hog = "from time import process_time\nkept = bytearray(3 << 28)\nwhile process_time() < 1.2: pass\n" + RIGHT
    source = program("CodeTestsEnv", tests=json.dumps([{"input": "2", "output": "4"}]), test_s=90.0)
    needs = Needs(step_s=100.0, memory_bytes=2 << 30)
    async with open_sandbox(msgspec.structs.replace(LIMITS, step_s=1.0)) as sandbox:
        await sandbox.open("e", source, 1, 1)
        assert (await sandbox.step("e", 1, hog)).reward == 0  # no memory
        await sandbox.open("f", source, 1, 1, needs)
        assert (await sandbox.step("f", 1, hog)).reward == 1


async def test_processor_time_is_limited_and_may_be_more_for_an_item(monkeypatch):
    monkeypatch.setattr(host, "PROCESSOR_STEPS", 0.1)
    busy = f"from time import process_time\nwhile process_time() < 1.5: pass\n{RIGHT}"
    one = program("CodeTestsEnv", tests=json.dumps([{"input": "2", "output": "4"}]), test_s=90.0)
    async with open_sandbox(msgspec.structs.replace(LIMITS, step_s=10.0)) as sandbox:
        await sandbox.open("e", one, 1, 1)
        assert (await sandbox.step("e", 1, busy)).reward == 0
        await sandbox.open("f", one, 1, 1, Needs(step_s=200.0))
        assert (await sandbox.step("f", 1, busy)).reward == 1


def test_the_needs_of_an_episode_are_bounded_and_nothing_is_narrowed():
    limits = Limits()
    much = widen_limits(limits, Needs(1e9, 1 << 50))
    assert (much.step_s, much.memory_bytes) == (300.0, 2 << 30)
    assert widen_limits(limits, Needs()) == limits


async def test_base_classes_are_given_only_where_their_library_is_listed():
    async with open_sandbox(Limits(load_s=60.0, step_s=60.0)) as sandbox:
        assert "ChoiceEnv" in (await play(sandbox, program("ChoiceEnv", answer="B")))[-1].detail


async def test_a_library_that_is_not_installed_is_refused_with_the_remedy(monkeypatch):
    monkeypatch.setitem(LIBRARIES, "gem", LIBRARIES["gem"]._replace(requirement="gem-llm==0.0.0"))
    with pytest.raises(RunError, match=r"gem: gem-llm==0\.0\.0 is supported, .*; pip install --no-deps gem-llm"):
        async with open_sandbox(Limits(libraries=("gem",))):
            pass


def test_the_setting_names_the_libraries_that_there_are():
    assert set(Library.__args__) == set(LIBRARIES)
