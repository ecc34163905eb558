"""Programs with tools, in real processes: what the player sees, what counts, and whose fault it is."""

import itertools
import json
import random
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.sandbox import open_sandbox
from actors.sandbox.host import PLAYS, REPEATS
from actors.sandbox.inside.child import load
from actors.sandbox.inside.given import BASES
from actors.sandbox.wire import Act, InspectReply, LoadProgram, Reset, Solve, Step
from spade.config import DOMAINS
from spade.config import Sandbox as Limits
from spade.protocol import Faulted, Observed, ToolResult
from tests.actors.odd_programs import DOOR, LIMITS
from tests.actors.tool_programs import LAMPS, PAPERS, PARCELS, SOUND, TICKETS, call, tools

SUBMIT = "All requests are done. Submit <answer>done</answer>."
WORK, LOOK = call("work"), call("look")


async def play(sandbox, source, *messages, seed=1, turns=9):
    """The answers to reset and each message, (answer, calls), up to the first fault."""
    answers = [await sandbox.open("e", source, seed, turns)]
    for turn, (answer, calls) in enumerate(messages, 1):
        if isinstance(answers[-1], Faulted):
            break
        answers.append(await sandbox.step("e", turn, answer, calls))
    return answers


async def last(sandbox, source, *messages):
    return (await play(sandbox, source, *(messages or [("", [LOOK])])))[-1]


def texts(answer):
    return [result.text for result in answer.results]


async def solved(sandbox, source, seed, twin=PLAYS):
    """The transcript of the reference solution, a call a turn, in processes of the twin zygote."""
    solver, player = [await sandbox.child(source, twin) for _ in range(2)]
    requests = (LoadProgram(source, 20), Reset(seed))
    for process in (solver, player):
        transcript = [await process.request(request, 60) for request in requests]
    calls = (await solver.request(Solve(), 60)).calls
    for each in calls:
        transcript.append(await player.request(Act((each,)), 60))
    transcript.append(await player.request(Act((), "done"), 60))
    for process in (solver, player):
        process.kill()
    return calls, [(each.text, each.results, each.tools, each.reward, each.terminated) for each in transcript[1:]]


# ---------------------------------------------------------------- what the player sees


async def test_the_opening_shows_the_first_instruction_and_the_derived_tools(sandbox):
    first = await sandbox.open("e", TICKETS, 1, 9)
    assert first.observation == "Which ticket is urgent? Look at it."
    assert (first.reward, first.done, first.instructions, first.results) == (0.0, 0, 2, ())
    offered = {each["function"]["name"]: each["function"] for each in json.loads(first.tools)}
    assert list(offered) == ["find", "view", "close", "delete"]
    assert offered["close"] == {
        "name": "close",
        "description": "Close a ticket, with a note.",
        "parameters": {
            "type": "object",
            "properties": {"number": {"type": "integer"}, "note": {"type": "string", "default": ""}},
            "required": ["number"],
        },
    }


async def test_each_instruction_is_given_in_the_result_that_met_the_one_before(sandbox):
    played = await play(sandbox, tools(), ("", [WORK]), ("", [LOOK]), ("", [WORK]), (" Done\n", []))
    assert [texts(each) for each in played] == [[], ["done 1\n\nUser: Two."], ["ok"], [f"done 1\n\n{SUBMIT}"], []]
    assert [(each.reward, each.done, each.terminated) for each in played] == [
        (0.0, 0, False), (1 / 3, 1, False), (1 / 3, 1, False), (2 / 3, 2, False), (1.0, 2, True),
    ]  # fmt: skip
    assert all(each.observation == "" and each.tools == "" for each in played[1:])
    assert sandbox.live == 0


async def test_calls_of_a_message_are_executed_in_order_and_before_its_answer(sandbox):
    calls = [LOOK, WORK, call("fly"), call("work", '{"times": 3}')]
    _, seen = await play(sandbox, tools(), ("done", calls))
    assert seen.results == (
        ToolResult("ok"),
        ToolResult("done 1\n\nUser: Two."),
        ToolResult('Error: there is no tool "fly"; there are: work, look', refused=True),
        ToolResult(f"done 3\n\n{SUBMIT}"),
    )
    assert (seen.observation, seen.reward, seen.terminated) == ("", 1.0, True)


async def test_an_answer_that_does_not_win_is_told_what_is_left(sandbox):
    messages = [("done", []), ("", []), ("", [WORK]), ("what?", [LOOK]), ("", [WORK]), ("ready", [])]
    played = await play(sandbox, tools(), *messages)
    assert [each.observation for each in played[1:]] == [
        "Not done: 2 requests are left. The present one: One.",
        "Call a tool, or submit <answer>done</answer> when all requests are done.",
        "",
        "Not done: 1 request is left. The present one: Two.",
        "",
        SUBMIT,
    ]
    assert not any(each.terminated for each in played)


async def test_an_instruction_that_is_met_when_it_is_given_is_free(sandbox):
    await sandbox.open("e", LAMPS, 1, 9)
    assert [each.met for each in (await sandbox.inspect("e")).criteria] == [True, False, False]
    early = await sandbox.step("e", 1, "done", [])
    assert early.observation.startswith("Not done: 3 requests are left. The present one: The lamp in the hall")
    seen = await sandbox.step("e", 2, "", [call("switch", '{"room": "attic", "to": "on"}')])
    assert texts(seen) == ["The lamp in the attic is on.\n\nUser: Light the attic.\n\nUser: Is the cellar dark?"]
    inspected = await sandbox.inspect("e")
    # The attic was lit in the call that gave the instruction: met as it was given.
    assert (inspected.done, inspected.free) == (seen.done, seen.free) == (2, 2)


async def test_an_instruction_that_was_met_stays_done(sandbox):
    back = call("work", '{"times": -1}')
    played = await play(
        sandbox, tools(), ("", [WORK]), ("", [back]), ("", [call("work", '{"times": 2}')]), ("done", [])
    )
    assert [each.done for each in played] == [0, 1, 1, 2, 2]
    assert played[-1].terminated


async def test_a_refused_call_neither_reaches_the_program_nor_meets_an_instruction(sandbox):
    source = tools(criteria="[lambda s: True, lambda s: s['done']]")
    refused = [
        ("work", "{"), ("work", "[]"), ("work", '{"times": "1"}'), ("work", '{"times": true}'), ("work", '{"more": 1}'),
        ("tool_work", "{}"), ("__init__", "{}"), ("look", '{"what": "up"}'), ("look", '{"spots": [1, "x"]}'),
    ]  # fmt: skip
    await sandbox.open("e", source, 1, 99)
    before = await sandbox.inspect("e")
    for turn, each in enumerate(refused, 1):
        seen = await sandbox.step("e", turn, "", [call(*each)])
        assert [(result.refused, result.text[:7]) for result in seen.results] == [(True, "Error: ")], each
        assert "\n" not in seen.results[0].text
        assert seen.done == 0
    assert (await sandbox.inspect("e")).state == before.state
    seen = await sandbox.step("e", len(refused) + 1, "", [call("work", '{"times": 2.0}')])
    assert texts(seen) == [f"done 2\n\nUser: Two.\n\n{SUBMIT}"]


async def test_a_result_is_a_text_or_json(sandbox):
    forms = [
        ("{'a': [1, None]}", '{"a": [1, null]}'),
        ("(1, 2.5)", "[1, 2.5]"),
        ("None", "null"),
        ("'é\\udc80'", "é\\udc80"),
    ]
    for result, text in forms:
        assert texts(await last(sandbox, tools(result=result))) == [text]


async def test_the_turn_limit_keeps_the_results(sandbox):
    await sandbox.open("e", tools(), 1, 1)
    seen = await sandbox.step("e", 1, "", [WORK])
    assert (seen.truncated, seen.terminated, texts(seen)) == (True, False, ["done 1\n\nUser: Two."])
    assert await sandbox.step("e", 1, "again", []) == seen


async def test_a_program_with_a_turn_limit_of_its_own_ends_there(sandbox):
    short = tools().replace(
        "def reset(",
        "def __init__(self, max_turns: int = 2):\n        super().__init__(max_turns)\n\n    def reset(",
        1,
    )
    seen = await play(sandbox, short, ("", [WORK]), ("", [WORK]))
    assert [(each.truncated, each.terminated) for each in seen[1:]] == [(False, False), (True, False)]


# ---------------------------------------------------------------- programs that grade by themselves


async def test_a_program_in_the_papers_style_is_graded_by_the_runtime(sandbox):
    move = call("move", '{"parcel": "P10", "shelf": "C1"}')
    lookup, out = call("lookup", '{"parcel": "P10"}'), call("hand_out", '{"parcel": "P10"}')
    played = await play(sandbox, PARCELS, ("anything", []), ("", [lookup]), ("", [move, out]), ("done", []))
    assert [each.reward for each in played] == [0.0, 0.0, 0.25, 0.75, 1.0]
    assert texts(played[3]) == [
        "P10 is on C1\n\nUser: Its owner is here: hand it out.",
        f"P10 is handed out\n\n{SUBMIT}",
    ]
    assert played[-1].terminated


async def test_the_solution_wins_and_two_hash_seeds_give_one_transcript(sandbox):
    for source, seed in itertools.product((SOUND | PAPERS).values(), (1, 2)):
        calls, first = await solved(sandbox, source, seed)
        assert len(calls) >= 2
        assert first[-1][-2:] == (1.0, True)
        assert (calls, first) == await solved(sandbox, source, seed, REPEATS)


SOLUTIONS = [
    ("[('work', {'times': 2}), ['tool_look', {}]]", [("work", '{"times": 2}'), ("look", "{}")]),
    ("['work(times=2)', 'first tool_look(\"here\", [1]) and then work()']",
     [("work", '{"times": 2}'), ("look", '{"what": "here", "spots": [1]}'), ("work", "{}")]),
    ("'''work(times=(1)); look(what=\"a ) work(3)\") rework(2) tool_work(-1) work(...) work(n) work(1, 2) look('''",
     [("work", '{"times": 1}'), ("look", '{"what": "a ) work(3)"}'), ("work", '{"times": -1}')]),
    ("'There is no way.'", []),
    ("iter([('work', {'times': 2})])", [("work", '{"times": 2}')]),
    ("[('look', {'what': Enum('Way', {'IN': 'in'}).IN})]", [("look", '{"what": "in"}')]),
    ("[('fly', {})]", [("fly", "{}")]),
    ("[{'type': 'tool_use', 'name': 'work', 'input': {'times': 2}}, {'action': 'look', 'params': {}}]",
     [("work", '{"times": 2}'), ("look", "{}")]),
]  # fmt: skip


async def test_the_calls_of_a_solution_are_read_in_every_form(sandbox):
    for solution, calls in SOLUTIONS:
        process = await sandbox.child("")
        for request in (LoadProgram(tools(solution=solution), 9, 9_999), Reset(1), Solve()):
            answer = await process.request(request, 60)
        process.kill()
        assert answer.calls == tuple(calls)
        assert answer.actions is None


async def test_a_message_without_calls_may_be_a_step(sandbox):
    process = await sandbox.child("")
    for request in (LoadProgram(tools(), 9, 9_999), Reset(1), Step("done")):
        answer = await process.request(request, 60)
    process.kill()
    assert answer.text == "Not done: 2 requests are left. The present one: One."


async def test_a_game_takes_no_calls(sandbox):
    first, second = await play(sandbox, DOOR, ("red", [WORK]))
    assert first == Observed("Which door? Actions: red blue")
    assert second == Faulted("infrastructure", "the program of episode 'e' has no tools to call")
    assert (await sandbox.inspect("e")).kind == "lost"


ORDINARY = tools(
    module="from __future__ import annotations\nclass Way(Enum):\n    IN = 'in'\n    OUT = 'out'",
    extra="def tool_fly(self, way: Way, far: Union[int, float] = 1, **more):\n        return f'{way.name} {far}'",
).replace("import ctypes, os, signal, sys, threading\n", "")


async def test_a_tool_may_take_and_give_an_enum_of_its_class(sandbox):
    """The statement at the top makes all annotations texts, and a class is no scope of its methods."""
    source = ORDINARY.replace("class Way(Enum):\n    IN = 'in'\n    OUT = 'out'", "")
    source = source.replace(
        "    def tool_fly", "    class Way(Enum):\n        IN = 'in'\n        OUT = 'out'\n    def tool_fly"
    )
    source = source.replace("return f'{way.name} {far}'", "return {'went': [way]}")
    assert texts((await play(sandbox, source, ("", [call("fly", '{"way": "out"}')])))[-1]) == ['{"went": ["out"]}']


async def test_a_result_may_count_by_an_enum(sandbox):
    source = ORDINARY.replace("return f'{way.name} {far}'", "return [Counter([way, way])]")
    assert texts((await play(sandbox, source, ("", [call("fly", '{"way": "out"}')])))[-1]) == ['[{"out": 2}]']


async def test_reset_may_call_the_reset_of_the_base(sandbox):
    source = tools(reset="super().reset(seed)")
    assert (await sandbox.open("e", source, 1, 3)).observation == "One."


async def test_a_program_that_defines_the_given_base_is_told_so(sandbox):
    source = tools(module="class ToolUseBaseEnv:\n    pass")
    assert "must not define ToolUseBaseEnv, which the runtime" in (await sandbox.open("e", source, 1, 3)).detail


def test_each_given_base_belongs_to_one_domain():
    assert sorted(base.__name__ for base in BASES) == sorted(filter(None, (each.base for each in DOMAINS.values())))


async def test_a_tool_may_take_an_enum_a_union_and_further_arguments(sandbox):
    calls = [
        call("fly", '{"way": "out", "far": 1.5}'),
        call("fly", '{"way": "up"}'),
        call("fly", '{"way": "in", "by": 1}'),
    ]
    first, last = await play(sandbox, ORDINARY, ("", calls))
    assert texts(last) == [
        "OUT 1.5",
        'Error: way: must be one of "in", "out"; is "up"',
        'Error: "by": there is no such argument; there are: way, far',
    ]
    assert '"way":{"type":"string","enum":["in","out"]},"far":{"type":"number","default":1}' in first.tools


OBJECTS = [
    "[('work', {})] * 2",
    "[{'tool': 'work', 'arguments': {}}, {'name': 'tool_work'}]",
    "[{'tool': 'work', 'args': None}, {'tool_name': 'work', 'parameters': {}}]",
    "[{'function': 'work', 'arguments': '{}'}, {'type': 'function', 'function': {'name': 'work', 'arguments': '{}'}}]",
]


@pytest.mark.parametrize("solution", OBJECTS)
async def test_a_solution_lists_calls_in_each_usual_form(sandbox, solution):
    calls, transcript = await solved(sandbox, tools(solution=solution), 1)
    assert calls == (("work", "{}"),) * 2
    assert transcript[-1][-2:] == (1.0, True)


# ---------------------------------------------------------------- programs that err


DECLARED = "self._tools = {'work': {'parameters': {'properties': %s, 'required': %s}}, 'look': {'description': %s}}"
TWICE = "self._tools = [{'name': 'work'}, {'name': 'work'}, {'name': 'look'}]"
LONG = "self._tools = {'work': {'parameters': {'description': 'x' * 70_000}}, 'look': {}}"
BREACHES = {
    "solution of OddToolsEnv is not a method": tools(extra="solution = None"),
    "OddToolsEnv has no method solution": tools().replace("def solution", "def answer"),
    "must have 2 to 16 methods tool_<name>, has 1": tools().replace("def tool_look", "def look"),
    'tool "fly": wings: needs an annotation': tools(extra="def tool_fly(self, wings): pass"),
    'tool "fly": wings: the annotation must be': tools(extra="def tool_fly(self, wings: tuple): pass"),
    "at most 1000 characters": tools(extra="def tool_fly(self):\n        '''" + "x" * 1001 + "'''"),
    "must be an identifier": tools(extra="def tool_flé(self): pass"),
    "properties.times.minLength: this": tools(reset=DECLARED % ("{'times': {'minLength': 3}}", "[]", "''")),
    "properties.count: the method has no parameter": tools(reset=DECLARED % ("{'count': {}}", "[]", "''")),
    'tool "look": the description must be a string': tools(reset=DECLARED % ("{}", "[]", "7")),
    "_tools lacks tool_look": tools(reset="self._tools = {'work': {}}"),
    "there is no method tool_fly": tools(reset="self._tools = {'work': {}, 'look': {}, 'fly': {}}"),
    'the key "strict" is not supported': tools(reset="self._tools = {'work': {}, 'look': {'strict': True}}"),
    "work is declared twice": tools(reset=TWICE),
    "_tools[0] must be an object": tools(reset="self._tools = ['work']"),
    "_tools is not JSON": tools(reset="self._tools = {1, 2}"),
    "_tools must be an object or a list": tools(reset="self._tools = 7"),
    "the tools take": tools(reset=LONG),
    "the tools are not JSON: there is a lone surrogate": tools(extra="def tool_fly(self): '\\ud800'"),
    "the tools are not JSON: Out of range": tools(extra="def tool_fly(self, up: float = float('nan')): ''"),
    'tool "fly": its annotations cannot be read: name': tools(extra="def tool_fly(self, up: 'Wing'): ''"),
    "_user_messages must be a list, not str": tools(messages="'O'", criteria="[]"),
    "needs 1 to 8 instructions, has 9": tools(messages="['a'] * 9"),
    "needs a criterion for each instruction, has 2 for 1": tools(messages="['a']"),
    "_user_messages[1] must be a str, not int": tools(messages="['a', 7]"),
    "_user_messages[1] is empty": tools(messages="['a', ' ']"),
    "_message_criteria[1] must be a function, not str": tools(criteria="[print, 'x']"),
    "_state must be a dict, not a list of 0": tools(state="[]"),
    "must be the first of _user_messages": tools().replace("return self._user_messages[0]", "return 'Hello.'"),
    "_state must be a dict, not int": tools(look="self._state = 7"),
    "the result of look must be a value of JSON, is set": tools(result="{1, 2}"),
    "the result of look must be a value of JSON, is float": tools(result="float('nan')"),
    "the result of look must be a value of JSON, is type": tools(result="object"),
    "the results of a message are over 262144 bytes": tools(result="'x' * 300_000"),
}
ERRORS = {
    "ValueError: no (line": tools(look="raise ValueError('no')"),
    "SystemExit: 1": tools(look="sys.exit(1)"),
    "KeyboardInterrupt": tools(look="raise KeyboardInterrupt"),
    "KeyError: 'x' (line": tools(criteria="[lambda s: s['x'], print]"),
}


@pytest.mark.parametrize(("kind", "faults"), [("protocol", BREACHES), ("exception", ERRORS)])
async def test_every_end_is_a_typed_fault(sandbox, kind, faults):
    for words, source in faults.items():
        ended = await last(sandbox, source)
        assert isinstance(ended, Faulted), (words, ended)
        assert (ended.kind, words in ended.detail) == (kind, True), (words, ended)


@pytest.mark.parametrize(
    ("source", "stage"),
    [
        (tools().replace("def solution", "def answer"), "interface"),
        (tools(reset="self._tools = 7"), "schema"),
        (tools(extra="def tool_fly(self, wings): pass"), "schema"),
        (tools(state="[]"), "play"),
    ],
)  # fmt: skip
async def test_a_fault_names_the_stage_of_the_programs_life(sandbox, source, stage):
    process = await sandbox.child("")
    for request in (LoadProgram(source, 9, 9_999), Reset(1)):
        answer = await process.request(request, 60)
        if isinstance(answer, Faulted):
            break
    assert isinstance(answer, Faulted)
    assert process.stage == stage


async def test_all_calls_of_a_message_share_the_time_of_a_step():
    async with open_sandbox(LIMITS) as sandbox:
        slow = "from time import process_time\nend = process_time() + 0.3\nwhile process_time() < end: pass"
        await sandbox.open("e", tools(look=slow), 1, 9)
        sandbox.limits = Limits(step_s=0.4)
        ended = await sandbox.step("e", 1, "", [LOOK] * 2)
        assert ended == Faulted("timeout", "no answer within 0.4 s of processor time")


# ---------------------------------------------------------------- what admission asks


async def test_inspection_tells_what_each_criterion_does(sandbox):
    criteria = "[lambda s: s['done'], lambda s: s['x'], lambda s: s.update(n=1) or 3]"
    source = tools(criteria=criteria, messages="list('abc')", state="{'done': 0, 1: {3, 2}, 'b': (b'x', 2.5), 'a': {}}")
    await sandbox.open("e", source, 1, 9)
    seen = await sandbox.inspect("e")
    assert isinstance(seen, InspectReply)
    assert seen.instructions == ("a", "b", "c")
    assert seen.state == '{"(1)": ["2", "3"], "a": {}, "b": ["b\'x\'", 2.5], "done": 0}'
    assert [(each.met, each.changes) for each in seen.criteria] == [(False, False), (False, False), (True, True)]
    assert seen.criteria[1].error.startswith("KeyError: 'x' (line")
    assert (seen.done, seen.free) == (0, 0)


async def test_a_state_has_one_canonical_form_and_a_bound(sandbox):
    for one, other, same in [
        ("{'a': 1, 'b': [1, 2]}", "{'b': (1, 2), 'a': 1}", True),
        ("{1: 0}", "{'1': 0}", False),
        ("{1: 0}", "{'(1)': 0}", False),
        ("{'a': {1, 'x'}}", "{'a': {'x', 1}}", True),
        ("{'a': 1}", "{'a': True}", False),
    ]:
        states = []
        for state in (one, other):
            await sandbox.open("e", tools(state=f"{state} | {{'done': 0}}"), 1, 9)
            states.append((await sandbox.inspect("e")).state)
        assert (states[0] == states[1]) is same, (one, other)
    for state in ("{'a': 'x' * 300_000}", "dict.fromkeys(range(300_000))", "{'a': [0] * 200_000}"):
        await sandbox.open("e", tools(state=f"{state} | {{'done': 0}}"), 1, 9)
        assert await sandbox.inspect("e") == Faulted("protocol", "_state is over 262144 bytes as JSON")
        assert (await sandbox.step("e", 1, "", [])).kind == "lost"


# ---------------------------------------------------------------- anything a player may send


@pytest.fixture
def desk():
    """The runtime with an honest program, in this process."""
    before = random.getstate()
    program = load(TICKETS, 9, 1_000_000)
    program.reset(1)
    yield program
    random.setstate(before)
    del sys.modules["environment"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
NUMBERS = st.fixed_dictionaries({}, optional={"number": JSON, "status": JSON, "urgent": JSON, "note": JSON})
NAMES = st.sampled_from(["find", "view", "close", "delete", "tool_find", "__class__"]) | st.text()
ARGUMENTS = st.text() | (JSON | NUMBERS).map(json.dumps) | st.sampled_from(["[" * 60_000, '{"number": 1e9999}'])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(NAMES, ARGUMENTS), max_size=4), st.text(max_size=3))
def test_no_message_faults_an_honest_program_and_refused_calls_leave_it_alone(desk, calls, answer):
    before = desk.inspect()
    seen = desk.act(calls, answer)
    assert [type(result["text"]) for result in seen["results"]] == [str] * len(calls)
    if all(result["refused"] for result in seen["results"]):
        assert desk.inspect() == before
