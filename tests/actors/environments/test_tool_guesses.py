"""Random calls of tools: schemas allow them, and whatever a program says there is one."""

import json
import random

from hypothesis import given
from hypothesis import strategies as st

from actors.environments.tools.guesses import RandomCaller, read_tools
from actors.environments.tools.nonsense import UNKNOWN, make_pointless_calls, make_refused_calls
from actors.sandbox.inside.tools.schema import ArgumentsError, check_arguments, check_parameters, read_arguments
from actors.text.conversation import Move
from spade.protocol import Observed, ToolCall, ToolResult

KEYS = st.sampled_from(["type", "properties", "required", "enum", "items", "minimum", "maximum", "a", "b"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
PARAMETERS = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "kind": {"type": "string", "enum": ["x", "y"]},
        "count": {"type": "integer", "minimum": 3, "maximum": 5},
        "tags": {"type": "array", "items": {"type": ["string", "null"]}},
        "place": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        "loud": {"type": "boolean"},
    },
    "required": ["id", "kind", "count"],
}


def opening(parameters: object, text: str = "Find T-104.") -> Observed:
    function = {"name": "find", "description": "", "parameters": parameters}
    return Observed(text, tools=json.dumps([{"type": "function", "function": function}]), instructions=2)


def test_random_calls_keep_their_schema_and_use_what_was_shown():
    guesser, ids = RandomCaller(random.Random(3)), set()
    guesser.act(opening(PARAMETERS))
    for _ in range(60):
        (call,) = guesser.act(Observed("", results=(ToolResult('{"R-7": 4}'),), instructions=2)).calls
        arguments = read_arguments(call.arguments)
        check_arguments(arguments, check_parameters(PARAMETERS))
        ids.add(arguments["id"])
    assert {"T-104", "R-7"} <= ids


def test_some_messages_repeat_calls_of_agents():
    sent = (ToolCall("close", '{"id": "R-7"}'), ToolCall("view", "{}"))
    guesser = RandomCaller(random.Random(3), [Move("done"), Move("", sent)])
    calls = [guesser.act(opening(PARAMETERS)).calls for _ in range(400)]
    assert 0.15 < calls.count(sent) / 400 < 0.35
    assert all(len(each) == 1 for each in calls if each != sent)


def test_a_random_player_submits_when_all_is_done():
    guesser = RandomCaller(random.Random(3))
    guesser.act(opening(PARAMETERS))
    assert guesser.act(Observed("", done=2, instructions=2)) == Move("done")


def test_calls_to_be_refused_are_refused_and_meaningless_ones_are_not():
    tools, schema = read_tools(opening(PARAMETERS)), check_parameters(PARAMETERS)
    for call in make_refused_calls(tools):
        try:
            check_arguments(read_arguments(call.arguments), schema)
        except ArgumentsError:
            continue
        assert call.name == UNKNOWN
    calls = list(make_pointless_calls(tools, random.Random(3)))
    assert len(calls) == 3
    for call, means_nothing in calls:
        assert means_nothing
        check_arguments(read_arguments(call.arguments), schema)


def test_a_far_limit_that_may_be_left_out_does_not_make_a_call_meaningless():
    listing = opening({"properties": {"limit": {"type": "integer"}}})
    assert [means_nothing for _, means_nothing in make_pointless_calls(read_tools(listing), random.Random(3))] == [
        False
    ] * 3


@given(st.dictionaries(KEYS, JSON, max_size=5), st.text(max_size=200), st.integers(0, 9))
def test_whatever_a_program_says_there_is_a_call(parameters, text, seed):
    guesser = RandomCaller(random.Random(seed))
    for seen in (opening(parameters, text), Observed("", results=(ToolResult(text),), instructions=1)):
        (call,) = guesser.act(seen).calls
        assert isinstance(json.loads(call.arguments), dict)
    make_refused_calls(guesser.tools)
    list(make_pointless_calls(guesser.tools, random.Random(seed)))


def test_a_program_whose_tools_cannot_be_read_is_not_called():
    assert RandomCaller(random.Random(1)).act(Observed("Hello.", tools='[{"type": 3}]', instructions=1)) == Move("done")
