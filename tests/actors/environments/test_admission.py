"""Admission: every stage can be passed and can be failed, and the failing stage is the right one."""

import itertools
import re

import msgspec
import pytest
import trio

from actors.environments.admission import validate
from actors.environments.trials import Trials
from actors.sandbox.process import ChildProcess
from actors.sandbox.wire import Step, unpack
from spade.config import Play
from spade.config import Sandbox as Limits
from spade.decoding import UnreadableError
from spade.errors import RunError
from tests.actors.odd_programs import LIMITS, SEARCH, VAULT, zygotes_started
from tests.actors.tool_programs import TICKETS

STAGES = [
    "parse", "class", "interface", "construct", "episode", "solution", "garbage", "random", "constant", "budget",
    "repeatable", "effect",
]  # fmt: skip

# Of those that are to take too long or too much, by what is said of them.
HASTY = {
    "timeout": Limits(load_s=60.0, step_s=0.5),
    "a call took": Limits(load_s=60.0, step_s=3.0),
    "MiB of memory": Limits(load_s=60.0, step_s=60.0, memory_bytes=40 << 20),
}


def changed(*edits: tuple[str, str]) -> str:
    source = SEARCH
    for old, new in edits:
        assert old in source
        source = source.replace(old, new)
    return source


WINS = 'return "Found.", 1.0, True, False, {}'
DEAF = ("if int(action) == self.goal:", "if False:"), ("self.goal else", "0 else")


def named(name):
    """The class renamed, as no `class` statement could name it."""
    return f"\nSearchEnv.__name__ = {name}\n"


FAILURES = [
    ("parse", "SyntaxError", changed(("class SearchEnv:", "class SearchEnv"))),
    ("class", "NameError", "import random\n" + changed(("class SearchEnv:", "class SearchEnv(Unknown):"))),
    ("class", "found: none", "print('nothing')"),
    ("class", "its class extends ToolUseBaseEnv", TICKETS),
    ("interface", "solution of SearchEnv is not a method", changed(("def solution", "solution = 3\n\n    def answer"))),
    ("construct", "TypeError", changed(("max_turns: int = 4", "max_turns, size"))),
    ("construct", "ZeroDivisionError", changed(("self.max_turns = max_turns", "1 / 0"))),
    ("episode", "AttributeError", changed(("self.turn = 0", "pass"))),
    ("episode", "reset must return", changed((', {}\n\n    def step', ", {}, 0\n\n    def step"))),
    ("episode", "reward", changed(("0.2", "'0.2'"))),
    ("episode", "timeout", changed(("reply = ", "while True: pass\n        reply = "))),
    ("random", "random play wins", changed(("== self.goal", "> 0"))),
    ("constant", "always", changed(("self.turn = 0", "self.turn = 0; self.said = []"),
        ("if int(action) == self.goal", "self.said.append(action)\n        if self.said[1:] == self.said[:1]"),
        ("[str(self.goal)]", "[str(self.goal)] * 2"))),
    ("garbage", "ValueError", changed(("not action.isascii() or not action.isdigit()", "False"))),
    ("garbage", "nonsense wins", changed(("A number, please. Actions: 1..30\", 0.0, over", "Ok.\", 1.0, True"))),
    ("budget", "a call took", changed(("self.turn += 1", "self.turn += 1\n        "
        "end = time.process_time() + 1.6 * (action == '?!')\n        while time.process_time() < end: pass"))),
    ("budget", "MiB of memory", changed(("class SearchEnv", "BIG = b'x' * (25 << 20)\nclass SearchEnv"))),
    ("solution", "does not win", changed(("[str(self.goal)]", "[str(self.goal - 1)]"))),
    ("solution", "does not win", changed(("[str(self.goal)]", "[]"))),
    ("solution", "ValueError", changed(("return [str(self.goal)]", "raise ValueError"))),
    ("effect", "the same happened", changed(
        ('reply = "Higher." if int(action) < self.goal else "Lower."', 'reply = "No."'),
        ("if int(action) == self.goal", "if False"), ("[str(self.goal)]", "'wait'"),
        ("A number, please.", "No."), ("0.0, over", "0.2, over"))),
    ("effect", "the seed alone", changed(("self.turn += 1", "return action, float(self.goal > 20), True, False, {}"),
        ("[str(self.goal)]", "'hope'"))),
    # Among so many numbers no guess is right by luck.
    ("class", "ASCII identifier of at most 100 characters, is 'A\\x1b[2J", SEARCH + named("'A\\x1b[2J\\u202eEnv'")),
    ("class", "ASCII identifier", SEARCH + named("'Search\\nEnv'")),
    ("class", "ASCII identifier", SEARCH + named("'\\uff33earch'")),
    ("class", "is 'EEEE", SEARCH + named("'E' * 101")),
    ("class", "is 'EEEE", SEARCH + named("'E' * 1_000_000")),
    ("repeatable", "not repeatable", changed(("random.Random(seed)", "random.Random()"), ("31)", "1 << 40)"),
        ("[str(self.goal)]", "'hope'"), ('"Lower."', "str(self.rng.random())"),
        ('"Higher."', "str(self.rng.random())"))),
    ("repeatable", "not repeatable", changed(('"Lower."', '"".join({*"lower than that"})'))),
]  # fmt: skip


async def test_a_good_program_passes_every_stage(sandbox):
    verdict = await validate(sandbox, SEARCH, 3, LIMITS)
    assert [(stage.name, stage.passed) for stage in verdict.stages] == [(name, True) for name in STAGES]
    assert (verdict.passed, verdict.name, verdict.seed_sensitive) == (True, "SearchEnv", True)
    assert verdict.first_observation == "Find the number. Actions: 1..30"


FIRST = {name: failure for name, *failure in reversed(FAILURES)}
"""The first failure of each stage."""


@pytest.mark.parametrize("first", [True, pytest.param(False, marks=pytest.mark.slow)])
async def test_every_stage_can_fail(sandbox, first):
    assert FIRST.keys() == set(STAGES)
    for name, words, source in (each for each in FAILURES if ([*each[1:]] == FIRST[each[0]]) == first):
        verdict = await validate(sandbox, source, 3, HASTY.get(words, LIMITS))
        told = [(stage.name, stage.passed, stage.reason) for stage in verdict.stages]
        assert not verdict.passed, (name, words)
        assert [stage.name for stage in verdict.stages] == STAGES[: STAGES.index(name) + 1], (name, words, told)
        assert [stage.passed for stage in verdict.stages] == [True] * STAGES.index(name) + [False], (name, words, told)
        assert words in verdict.stages[-1].reason, (name, words, told)


async def test_a_name_of_a_hundred_letters_is_a_name(sandbox):
    verdict = await validate(sandbox, SEARCH + named("'E' * 100"), 3, LIMITS)
    assert (verdict.passed, verdict.name) == (True, "E" * 100)


@pytest.mark.parametrize("name", ["Search\n", "a\x1b[2J", "", "é", "E" * 101])
def test_an_answer_that_is_forged_names_nothing_else(name):
    body = {"is": "loaded", "nonce": "1", "name": name}
    with pytest.raises(UnreadableError):
        unpack(msgspec.json.encode(body))


def guess(sides: int) -> str:
    """One guess of so many."""
    return changed(("randrange(1, 31)", f"randrange(1, {sides + 1})"), ("1..30", f"1..{sides}"), ("= 4", "= 1"))


async def test_a_program_that_a_guess_wins_every_other_time_is_refused(sandbox):
    """Its win rate would lie in the designer's band whatever the agent can do."""
    verdict = await validate(sandbox, guess(2), 3, LIMITS)
    assert verdict.stages[-1].name == "random", verdict.stages[-1]
    assert re.match("random play wins [0-9]+ of", verdict.stages[-1].reason)


async def test_the_share_that_a_guess_may_win_is_the_configs(sandbox):
    assert (await validate(sandbox, guess(5), 3, LIMITS)).passed
    strict = msgspec.structs.replace(LIMITS, random_win_share=0.05)
    assert (await validate(sandbox, guess(5), 3, strict)).stages[-1].name == "random"
    anything = msgspec.structs.replace(LIMITS, random_win_share=1.0)
    assert (await validate(sandbox, guess(2), 3, anything)).passed


async def test_each_play_that_tests_luck_has_an_instance_of_its_own(sandbox, monkeypatch):
    plays, play = [], Trials.play

    async def noted(trials, seed, policy, twin):
        plays.append(await play(trials, seed, policy, twin))
        return plays[-1]

    monkeypatch.setattr(Trials, "play", noted)
    verdict = await validate(sandbox, guess(30), 3, LIMITS)
    told = {stage.name: stage.reason for stage in verdict.stages}
    seeds = {played.seed for played in plays}
    assert len(seeds) == int(told["random"].split()[2])


@pytest.mark.parametrize(
    "solution",
    [("[str(self.goal)]", "'search for it'"), ("def solution", "def answer"), ("def close", "def shut")],
    ids=["described", "none", "nothing to close"],
)
async def test_a_solution_may_be_described_or_left_out_and_close_too(sandbox, solution):
    verdict = await validate(sandbox, changed(solution), 3, LIMITS)
    assert verdict.passed, verdict.stages[-1]
    said = next(stage.reason for stage in verdict.stages if stage.name == "solution")
    assert said == ("" if "close" in solution[0] else "it lists no actions, so it was not replayed")


async def test_a_program_without_chance_passes_and_is_known_for_it(sandbox):
    verdict = await validate(sandbox, changed(("self.rng.randrange(1, 31)", "17")), 3, LIMITS)
    assert (verdict.passed, verdict.seed_sensitive) == (True, False)


async def test_a_world_that_is_seldom_won_is_not_taken_for_luck(sandbox):
    """An instance that luck won and nobody played again is no proof that the seed alone decides."""
    effects = [(await validate(sandbox, VAULT, seed, LIMITS)).stages[-1] for seed in range(11, 23)]
    assert {(effect.name, effect.passed) for effect in effects} == {("effect", True)}
    assert {effect.reason[:9] for effect in effects} == {"", "uncertain"}  # as luck had it


async def test_a_world_that_nobody_wins_is_uncertain(sandbox):
    effect = (await validate(sandbox, VAULT.replace("range(3)", "range(30)"), 3, LIMITS)).stages[-1]
    assert effect.passed
    assert effect.reason.startswith("uncertain: 0 of 14 instances were won")


async def test_a_test_of_luck_that_ends_at_its_bound_is_uncertain(sandbox, monkeypatch):
    monkeypatch.setattr("actors.environments.sequential.BOUND", 10)
    monkeypatch.setattr("actors.environments.stages.BOUND", 10)
    verdict = await validate(sandbox, guess(30), 3, LIMITS)
    told = {stage.name: stage.reason for stage in verdict.stages}
    assert re.match("uncertain: [0-9] of 10 won", told["random"])


async def test_the_plays_follow_the_runs_rules(sandbox):
    # Within two turns the solution of three actions cannot win.
    slow = changed(("[str(self.goal)]", "['0', '0', str(self.goal)]"))
    assert (await validate(sandbox, slow, 3, LIMITS)).passed
    assert (await validate(sandbox, slow, 3, LIMITS, Play(max_turns=2))).stages[-1].name == "solution"


@pytest.mark.parametrize("waits_s", [0.3, 0.6])
async def test_a_program_that_waits_for_a_processor_passes(own_sandbox, monkeypatch, waits_s):
    """More than half of `step_s` was refused by the stage `budget`, and more than `step_s` was a timeout."""
    calls, exchange = itertools.count(), ChildProcess._exchange

    async def late(process, request, *rest):
        if isinstance(request, Step) and next(calls) == 0:
            await trio.sleep(waits_s)  # as if no processor was free for the program
        return await exchange(process, request, *rest)

    monkeypatch.setattr(ChildProcess, "_exchange", late)
    verdict = await validate(own_sandbox, SEARCH, 3, Limits(load_s=60.0, step_s=0.5))
    assert verdict.passed, verdict.stages[-1]


async def test_a_program_that_waits_often_passes(own_sandbox, mock_clock, monkeypatch):
    """All its calls together took more than load_s + 4 step_s."""
    exchange = ChildProcess._exchange

    async def late(*arguments):
        mock_clock.jump(0.15)
        return await exchange(*arguments)

    monkeypatch.setattr(ChildProcess, "_exchange", late)
    verdict = await validate(own_sandbox, SEARCH, 7, Limits(load_s=0.5, step_s=0.5))
    assert verdict.passed, verdict.stages[-1]


async def test_all_calls_of_an_admission_have_a_limit(own_sandbox, monkeypatch):
    request = ChildProcess.request

    async def slow(process, *rest):
        """As if each call computed for most of what it may."""
        process.counted_s += 0.4
        return await request(process, *rest)

    monkeypatch.setattr(ChildProcess, "request", slow)
    verdict = await validate(own_sandbox, SEARCH, 7, Limits(load_s=0.5, step_s=0.5))
    assert not verdict.passed
    assert "more than 2.5 s" in verdict.stages[-1].reason


async def test_an_admission_that_waits_has_a_deadline_too(own_sandbox, mock_clock, monkeypatch):
    play = Trials.play

    async def slow(*arguments):
        mock_clock.jump(4.0)
        return await play(*arguments)

    monkeypatch.setattr(Trials, "play", slow)
    verdict = await validate(own_sandbox, SEARCH, 7, Limits(load_s=0.5, step_s=0.5))
    assert not verdict.passed
    assert "all stages together take more than 2" in verdict.stages[-1].reason


async def test_a_test_of_luck_has_time_for_each_of_its_plays(own_sandbox, mock_clock, monkeypatch):
    """Together they take more than what is left of the deadline that the other stages have."""
    limits, play = Limits(load_s=1.0, step_s=1.0), Trials.play

    async def slow(*arguments):
        mock_clock.jump(1.9)
        return await play(*arguments)

    monkeypatch.setattr(Trials, "play", slow)
    verdict = await validate(own_sandbox, guess(5), 3, limits)
    assert verdict.passed, verdict.stages[-1]


async def test_a_failing_sandbox_is_no_verdict(own_sandbox, monkeypatch):
    monkeypatch.setattr("sys.executable", "/bin/false")  # no second zygote starts
    with pytest.raises(RunError, match="the sandbox failed: the zygote"):
        await validate(own_sandbox, SEARCH, 3, LIMITS)


TELLTALE = """
import gc, os, sys, time, threading
MARKS = []
class TelltaleEnv:
    def __init__(self, max_turns: int = 4) -> None:
        MARKS.append("built")
    def reset(self, seed):
        frame, names = sys._getframe(), []
        while frame:
            names += [frame.f_code.co_name, *sorted(map(str, frame.f_locals))]
            frame = frame.f_back
        numbers = os.getpid(), os.getppid(), threading.main_thread().native_id
        self.seen = str((MARKS, names, numbers, gc.get_stats(), gc.get_count(), id(object()), hash("x"), self.__dict__))
        self.goal = str(seed)
        return self.seen + " Actions: " + " ".join(str(seed + step) for step in range(30)), {}
    def step(self, action):
        MARKS.append("stepped")
        if action == self.goal:
            return "Found.", 1.0, True, False, {}
        return str(MARKS), 0.0, len(MARKS) > 4, False, {}
    def solution(self):
        MARKS.append("asked")
        return [self.goal]
    def close(self):
        pass
"""


async def test_a_program_sees_of_admission_what_it_sees_of_plays(sandbox, monkeypatch):
    """All that it can see of its process: which calls came before, its numbers, memory, hashes and frames."""
    await zygotes_started(sandbox)
    transcripts, request = [], ChildProcess.request

    async def heard(process, question, deadline_s):
        answer = await request(process, question, deadline_s)
        transcripts.append((type(question).__name__, getattr(answer, "text", "").partition(" Actions")[0]))
        return answer

    monkeypatch.setattr(ChildProcess, "request", heard)
    await validate(sandbox, TELLTALE, 3, LIMITS)
    admitted, transcripts[:] = {text for kind, text in transcripts if kind == "Reset"}, []
    for index in range(16):
        await sandbox.open(str(index), TELLTALE, index, 25)
    played = {text for kind, text in transcripts if kind == "Reset"}
    assert len(played) == 1, "a play tells which one it is"
    [repeated] = admitted - played
    words = re.compile("-?[0-9]{4,}")  # addresses and hashes, drawn for each zygote
    assert {words.sub("#", text) for text in played} == {words.sub("#", repeated)}


async def test_what_is_kept_of_all_plays_is_bounded(sandbox, monkeypatch):
    """Hundreds of plays of the longest observations would be more than an env-runner has memory for."""
    monkeypatch.setattr("actors.environments.trials.MOST_HEARD", 3 << 20)
    wordy = changed(("reply + ", "reply + ' ' * 50_000 + "))
    last = (await validate(sandbox, wordy, 3, LIMITS)).stages[-1]
    assert (last.passed, last.reason) == (False, "the observations of all plays take more than 3 MiB")
    assert (await validate(sandbox, SEARCH, 3, LIMITS)).passed


COIN = """
import random

class CoinEnv:
    def reset(self, seed):
        self.right, self.turn = random.Random(seed).choice(["heron", "crane"]), 0
        return "Actions: look", {}

    def step(self, action):
        self.turn += 1
        won = action == self.right
        return SHOWN, float(won), self.turn == 2, False, {}

    def solution(self):
        return ["look", self.right]
"""


@pytest.mark.parametrize(("shown", "stage", "reason"), [
    ("'Actions: heron crane'", "random", "random play wins"),
    ("'Actions: ' + 'heron crane ' * 1_400", "episode", "an observation lists actions in more than 16384 characters"),
    (
        "'A heron or a crane, ' + 'that is the question of this hour, ' * 99",
        "random",
        "the observation before action 2 of the solution offers no actions that can be read",
    ),
])  # fmt: skip
async def test_no_list_of_a_later_turn_hides_a_coin(sandbox, shown, stage, reason):
    """Random play cannot tell the two words apart from the rest of a text."""
    limits = msgspec.structs.replace(LIMITS, random_win_share=0.05, readable_actions=True)
    last = (await validate(sandbox, COIN.replace("SHOWN", shown), 3, limits)).stages[-1]
    assert (last.name, last.passed, reason in last.reason) == (stage, False, True), last


async def test_a_solution_that_is_longer_than_a_play_is_called_so(sandbox):
    long = VAULT.replace("range(3)", "range(9)").replace(
        '"Find the first colour, then the second, then the third."', "self.goal"
    )
    verdict = await validate(
        sandbox, long.replace("max_turns: int = 6", "max_turns: int = 60"), 5, LIMITS, Play(max_turns=8)
    )
    assert "the solution does not win within 8 turns; its 9 actions are [" in verdict.stages[-1].reason
