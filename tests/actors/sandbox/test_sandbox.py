"""The sandbox with honest programs and with those that err, in real processes."""

import random
import time

import pytest
import trio

from actors.sandbox import open_sandbox
from actors.sandbox.host import REPEATS
from actors.sandbox.wire import LoadProgram, Reset, Solve
from spade.config import Sandbox as Limits
from spade.errors import RunError
from spade.protocol import Faulted, Observed
from tests.actors.odd_programs import DOOR, LIMITS, fault, play, program

HASTY = Limits(load_s=0.4, step_s=0.4)


# ---------------------------------------------------------------- honest programs


async def test_an_honest_episode_is_answered_word_by_word(sandbox):
    seed = next(seed for seed in range(9) if random.Random(seed).choice(["red", "blue"]) == "blue")
    assert await play(sandbox, DOOR, "red", "?", "blue", seed=seed) == [
        Observed("Which door? Actions: red blue"),
        Observed("The red door is shut. Actions: red blue", 0.25),
        Observed("The ? door is shut. Actions: red blue", 0.25),
        Observed("It opens.", 1.0, terminated=True),
    ]
    assert sandbox.live == 0  # what is over holds no process


async def test_the_last_turn_is_answered_from_memory_and_no_other(sandbox):
    first, second = (await play(sandbox, DOOR.replace("0.25", "0.1 * self.turn"), "?", "?"))[1:]
    assert await sandbox.step("e", 2, "anything") == second != first
    for turn in (1, 4, 0):
        assert isinstance(lost := await sandbox.step("e", turn, "?"), Faulted)
        assert lost.kind == "lost"
    sandbox.close("e")
    assert (await sandbox.step("e", 3, "?")).kind == "lost"


async def test_the_turn_limit_is_the_hosts_and_the_programs_own_holds_under_it(sandbox):
    endless = program()
    await sandbox.open("a", endless, 1, 2)
    assert [(await sandbox.step("a", turn, "x")).truncated for turn in (1, 2)] == [False, True]
    assert (await sandbox.step("a", 3, "x")).kind == "lost"
    for most, turns in ((2, 2), (8, 3)):
        await sandbox.open("b", DOOR, 1, most)
        ends = [(await sandbox.step("b", turn, "?")).terminated for turn in range(1, turns + 1)]
        assert ends == [False] * (turns - 1) + [True]


async def test_episodes_side_by_side_do_not_mix(sandbox):
    transcripts: dict[int, list[Observed | Faulted]] = {}

    async def one(seed: int) -> None:
        transcripts[seed] = await play(sandbox, DOOR, "?", "red", name=str(seed), seed=seed)

    async with trio.open_nursery() as nursery:
        for seed in range(8):
            nursery.start_soon(one, seed)
    for seed in range(8):
        assert transcripts[seed] == await play(sandbox, DOOR, "?", "red", name="again", seed=seed)
    assert len({tuple(answers) for answers in transcripts.values()}) == 2


async def test_chance_is_fixed_by_the_seed_alone(sandbox):
    source = program(reset="text = str((random.random(), WORDS))", module="WORDS = random.sample(range(99), 3)")
    same, again, other = [(await sandbox.open("e", source, seed, 3)).observation for seed in (5, 5, 6)]
    assert same == again != other
    assert same.split(",", 1)[1] == other.split(",", 1)[1]  # the module's constants are no part of the instance


async def test_common_names_need_no_import_and_prints_go_nowhere(sandbox):
    source = program(
        module="from dataclasses import dataclass\n@dataclass\nclass Point:\n    x: int = 0",
        reset="for _ in range(2000):\n    print('{}' * 99)\n    print('x', file=sys.stderr)\n"
        "text = str(Counter('aab')['a'] + math.floor(1.5))",
    )
    assert await sandbox.open("e", source, 1, 3) == Observed("3")


async def test_numpy_scalars_are_numbers_in_the_heavy_zygote(sandbox):
    source = program(result="'on', np.float64(0.5), np.bool_(False), False, {}")
    assert (await play(sandbox, source, "x"))[-1] == Observed("on", 0.5)


@pytest.mark.parametrize("tier", ["namespaces", "landlock", "seccomp", "none"])
async def test_libraries_are_imported_without_a_file(tier):
    standard = "import asyncio, statistics, zoneinfo\nfrom xml.etree import ElementTree\nfrom email.mime import text"
    named = "import numpy.testing, sympy.physics.units\nfrom mpmath import mp"
    try:
        async with open_sandbox(Limits(tier=tier, load_s=60.0, step_s=60.0)) as sandbox:
            for lines in (standard, standard + "\n" + named):
                ends = await play(sandbox, program(step=lines), "x")
                assert ends[-1] == Observed("on")
            for other in ("import msgspec", "import numpy, msgspec", "import spade", "import numpy, spade"):
                assert "No module named" in (await fault(sandbox, program(step=other))).detail
    except RunError as error:
        pytest.skip(str(error))


async def test_text_is_made_utf8(sandbox):
    source = program(reset="text = 'a\\udc80\\x00é'")
    assert (await sandbox.open("e", source, 1, 3)).observation == "a\\udc80\x00é"


# ---------------------------------------------------------------- programs that err


WRONG_RESULTS = [
    ("'on', 0.0, False, {}", "protocol", "a tuple of 4"),
    ("['on', 0.0, False, False, {}]", "protocol", "a list of 5"),
    ("None", "protocol", "NoneType"),
    ("7, 0.0, False, False, {}", "protocol", "observation"),
    ("'on', 0.0, 1, False, {}", "protocol", "terminated"),
    ("'on', 0.0, False, None, {}", "protocol", "truncated"),
    ("'on', 0.0, False, False, []", "protocol", "info"),
    ("'x' * 300_000, 0.0, False, False, {}", "protocol", "262144"),
    ("'on', float('nan'), False, False, {}", "reward", "finite"),
    ("'on', float('-inf'), False, False, {}", "reward", "finite"),
    ("'on', 10 ** 999, False, False, {}", "reward", "finite"),
    ("'on', 10.5, False, False, {}", "reward", "within"),
    ("'on', 10.000001, False, False, {}", "reward", "within ±10, is 10.000001"),
    ("'on', '1', False, False, {}", "reward", "str"),
    ("'on', None, False, False, {}", "reward", "NoneType"),
    ("'on', type('F', (float,), {})(1), False, False, {}", "reward", "F"),
]


async def test_the_result_of_step_is_held_to_the_interface(sandbox):
    for result, kind, words in WRONG_RESULTS:
        ended = await fault(sandbox, program(result=result))
        assert (ended.kind, words in ended.detail) == (kind, True), (result, ended)


ENDS = [
    ("class Env(:", "exception", "SyntaxError"),
    ("\0", "exception", "null"),
    ("(" * 500, "exception", "Error"),
    ("1 / 0", "exception", "ZeroDivisionError: division by zero (line 1)"),
    ("x = 1", "protocol", "found: none"),
    (DOOR.replace("def close", "close = 3\n\n    def shut"), "protocol", "close of DoorEnv is not a method"),
    (DOOR.replace("DoorEnv", "Door") + DOOR.replace("DoorEnv", "Gate"), "protocol", "found: Door, Gate"),
    (program(init="raise SystemExit(3)"), "exception", "SystemExit: 3"),
    (program(reset="sys.exit()"), "exception", "SystemExit"),
    (program(reset="raise KeyboardInterrupt"), "exception", "KeyboardInterrupt"),
    (program(step="return self.step(action)"), "exception", "RecursionError"),
    (program(step="input()"), "exception", "EOFError"),
    (program(reset="text = bytearray(10 ** 9)"), "exception", "MemoryError"),
    (program(step="x = []\nwhile True:\n    x.append(bytes(10 ** 6))"), "exception", "MemoryError"),
    (program(step="os.fork()"), "exception", "Operation not permitted"),
    (program(step="threading.Thread(target=print).start()"), "exception", "start new thread"),
    (program(step="open('/dev/shm/spade-test', 'w').write('x' * 9999)"), "exception", "Error"),
    (program(step="os._exit(3)"), "died", "exit status 3"),
    (program(step="signal.setitimer(signal.ITIMER_REAL, 0.01)\nwhile True:\n    pass"), "died", "SIGALRM"),
    (program(step="os.execv('/bin/true', ['true'])"), "died", "SIGSYS"),
    (program(step="os.kill(os.getpid(), signal.SIGKILL)"), "exception", "Operation not permitted"),
    (program(step="ctypes.string_at(0)"), "died", "SIGSEGV"),
]


async def test_every_end_is_a_typed_fault(sandbox):
    for source, kind, words in ENDS:
        ended = await fault(sandbox, source)
        assert (ended.kind, words in ended.detail) == (kind, True), (source, ended)


async def test_the_environment_class_is_the_leaf_named_env(sandbox):
    helpers = "class Base:\n    def reset(self, seed): ...\n    def step(self, action): ...\n"
    assert await sandbox.open("e", helpers + DOOR.replace("DoorEnv:", "DoorEnv(Base):"), 1, 3) == Observed(
        "Which door? Actions: red blue"
    )
    assert isinstance(await sandbox.open("e", helpers + DOOR, 1, 3), Observed)


async def test_an_exceptions_text_is_cut_and_may_itself_raise(sandbox):
    assert len((await fault(sandbox, program(step="raise ValueError('x' * 99_999)"))).detail) == 2_000
    evil = "class Evil(Exception):\n    def __str__(self):\n        raise self"
    assert (await fault(sandbox, program(step="raise Evil", module=evil))).detail.startswith("Evil")


@pytest.mark.parametrize("place", ["module", "init", "reset", "step"])
async def test_an_endless_loop_is_killed_in_time(place):
    async with open_sandbox(LIMITS) as sandbox:
        sandbox.limits = HASTY  # not before it has proven its walls
        began = time.monotonic()
        loop = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True:\n    pass"
        ended = await fault(sandbox, program(**{place: loop}))
        assert ended == Faulted("timeout", "no answer within 0.4 s of processor time")
        assert time.monotonic() - began < 30


# ---------------------------------------------------------------- ordinary Python


RESETS = [
    "self, seed", "self, seed=None", "self, seed, /", "self, *, seed=None, options=None",
    "self, options=None, seed=None", "self, seed=None, **kwargs", "self, **kwargs", "self, *arguments",
    "self, *arguments, **kwargs", "self, number", "self, seed: int | None = None, options: dict | None = None",
]  # fmt: skip


@pytest.mark.parametrize("parameters", RESETS)
async def test_reset_gets_its_seed_in_each_usual_signature(sandbox, parameters):
    seen = "text = str([v for k, v in locals().items() if k not in ('self', 'text')])"
    source = program(reset=seen).replace("def reset(self, seed)", f"def reset({parameters})")
    observed = await sandbox.open("e", source, 41, 3)
    assert isinstance(observed, Observed), observed
    assert "41" in observed.observation
    if "options" in parameters:
        assert "None" in observed.observation


TEXTS = {
    "a mark at the start": "\ufeff" + DOOR,
    "ends of lines of Windows": DOOR.replace("\n", "\r\n"),
    "both": "\ufeff" + DOOR.replace("\n", "\r\n"),
    "a future import": "from __future__ import annotations\n" + DOOR.replace("self, seed", "self, seed: Unknown"),
    "a mark and a future import": "\ufeff'''Doors.'''\nfrom __future__ import annotations\n" + DOOR,
    "a coding line": "# -*- coding: utf-8 -*-\n" + DOOR,
    "braces to be doubled": "\ufeff" + DOOR.replace('"Which door?', 'f"Which {door}?').replace("\n", "\r\n"),
}


async def test_reset_may_be_wrapped(sandbox):
    wrapped = "import functools\ndef logged(method):\n    @functools.wraps(method)\n    def wrapper(self, number):\n"
    wrapped += "        return method(self, number)\n    return wrapper"
    source = program(module=wrapped, reset="text = str(seed)").replace("    def reset", "    @logged\n    def reset")
    assert await sandbox.open("e", source, 41, 3) == Observed("41")
    general = source.replace("self, number", "*args, **kwargs")
    for parameters in ("self, seed", "self, *, seed=None, options=None", "self, seed, /"):
        odd = general.replace("reset(self, seed)", f"reset({parameters})")
        assert await sandbox.open("e", odd, 41, 3) == Observed("41")


async def test_the_action_of_a_step_may_be_keyword_only(sandbox):
    named = DOOR.replace("step(self, action)", "step(self, *, action)")
    assert (await play(sandbox, named, "?"))[-1] == Observed("The ? door is shut. Actions: red blue", 0.25)


BARE = """
def logged(method):
    def wrapper(*args, **kwargs):
        return method(*args, **kwargs)
    return wrapper
"""
HIDES = "a wrapper hides the parameters of reset: write `@functools.wraps(method)` above its `def`"
STEP = "step must take the action: write `def step(self, action)`"
UNCALLABLE = {
    "no seed": ("", "reset(self, seed)", "reset(self)", "reset must take the seed: write `def reset(self, seed)`"),
    "no action": ("", "step(self, action)", "step(self)", STEP),
    "keywords alone": ("", "step(self, action)", "step(self, **kw)", STEP),
    "a bare wrapper": (BARE, "    def reset(self, seed)", "    @logged\n    def reset(self, *, seed=None)", HIDES),
}


@pytest.mark.parametrize("case", UNCALLABLE)
async def test_a_method_that_cannot_be_called_is_refused_with_what_to_write(sandbox, case):
    module, usual, odd, reason = UNCALLABLE[case]
    source = program(module=module).replace(usual, odd)
    assert (await play(sandbox, source, "?"))[-1] == Faulted("protocol", reason)


async def test_an_error_inside_a_method_is_quoted_as_it_is(sandbox):
    """Also a TypeError, and one that passes through a wrapper."""
    raising = program(module=BARE, reset="len(1)").replace("    def reset", "    @logged\n    def reset")
    for source in (raising, raising.replace("    @logged\n", "")):
        assert "TypeError: object of type 'int' has no len()" in (await sandbox.open("e", source, 1, 3)).detail


async def test_reset_may_return_the_observation_alone_and_info_may_be_none(sandbox):
    bare = program(reset="return text", result='"on", 0.0, False, False, None')
    assert await play(sandbox, bare, "?") == [Observed("start"), Observed("on")]
    nothing = program(reset="return text, None")
    assert await sandbox.open("e", nothing, 1, 3) == Observed("start")
    assert "info must be a dict" in (await sandbox.open("e", program(reset="return text, 1"), 1, 3)).detail


@pytest.mark.parametrize("text", TEXTS)
async def test_a_program_may_be_written_by_any_editor(sandbox, text):
    first, last = await play(sandbox, TEXTS[text], "?")
    assert (first.observation.startswith("Which "), last.observation) == (True, "The ? door is shut. Actions: red blue")
    process = await sandbox.child("")
    loaded = await process.request(LoadProgram(TEXTS[text], 9, 9_999), 60)
    process.kill()
    assert (loaded.name, loaded.repairs) == ("DoorEnv", ("f-string braces",) if "braces" in text else ())


async def test_the_answer_of_a_step_may_be_a_named_tuple(sandbox):
    named = "Result = namedtuple('Result', 'text reward terminated truncated info')\n"
    source = named + DOOR.replace('return f"The', 'return Result(f"The').replace("over, False, {}", "over, False, {})")
    assert (await play(sandbox, source, "?"))[-1] == Observed("The ? door is shut. Actions: red blue", 0.25)
    short = source.replace(" info'", "'").replace("False, {})", "False)")
    assert "not a tuple of 4" in (await play(sandbox, short, "?"))[-1].detail


SAID = ["iter([self.goal])", "deque([self.goal])", "map(str, [self.goal])", "(yield self.goal)"]


@pytest.mark.parametrize("said", SAID)
async def test_the_actions_of_a_solution_may_be_any_sequence_or_iterator(sandbox, said):
    process = await sandbox.child("")
    source = DOOR.replace("return [self.goal]", f"return {said}")
    for request in (LoadProgram(source, 9, 9_999), Reset(1), Solve()):
        answer = await process.request(request, 60)
    process.kill()
    assert answer.actions in (("red",), ("blue",))


@pytest.mark.parametrize("base", ["str, Enum", "Enum"])
async def test_the_actions_of_a_solution_may_be_members_of_an_enum(sandbox, base):
    """`str` of a member is its name, and the program takes its value."""
    process = await sandbox.child("")
    source = f"class Door({base}):\n    RED = 'red'\n    BLUE = 'blue'\n" + DOOR.replace(
        "return [self.goal]", "return [Door(self.goal)]"
    )
    for request in (LoadProgram(source, 9, 9_999), Reset(1), Solve()):
        answer = await process.request(request, 60)
    process.kill()
    assert answer.actions in (("red",), ("blue",))


async def test_an_interface_that_no_class_extends_is_no_environment(sandbox):
    methods = "    {0}\n    def reset(self, seed): ...\n    {0}\n    def step(self, action): ...\n"
    for base, mark in (("typing.Protocol", ""), ("ABC", "@abstractmethod")):
        source = f"import typing\nclass PlayEnv({base}):\n{methods.format(mark)}{DOOR}"
        assert await sandbox.open("e", source, 1, 3) == Observed("Which door? Actions: red blue")


async def test_a_solution_without_a_body_is_left_out(sandbox):
    process = await sandbox.child("")
    source = DOOR.replace("return [self.goal]", "pass")
    for request in (LoadProgram(source, 9, 9_999), Reset(1), Solve()):
        answer = await process.request(request, 60)
    process.kill()
    assert answer.actions is None


@pytest.mark.parametrize("fixed", [True, False])
async def test_the_order_of_sets_is_the_same_in_each_sandbox_with_fixed_hashes_alone(fixed):
    """A check by hand has one verdict on a program that iterates over a set, and a run has hashes nobody foresees."""
    source = program(reset="text = ' '.join(set(map(str, range(40))))")
    orders = set()
    for _ in range(2):
        async with open_sandbox(LIMITS, fixed_hashes=fixed) as opened:
            orders.add((await opened.open("e", source, 1, 3)).observation)
            twin = await opened.child("", REPEATS)
            for request in (LoadProgram(source, 9, 9_999), Reset(1)):
                answer = await twin.request(request, 60)
            twin.kill()
            orders.add(answer.text)
    assert len(orders) == (2 if fixed else 4)
