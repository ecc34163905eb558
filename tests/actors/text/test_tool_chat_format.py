"""A play of tool use speaks to the model and reads the model's answers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.text.conversation import CallFormat, ToolChatFormat
from actors.text.toolcalls import DIALECTS
from actors.text.tools.prompts import ToolProfile
from spade.config import Design, Play, ToolUse
from spade.decoding import UnreadableError
from spade.protocol import Observed, ToolCall, ToolResult

HERMES, XML = DIALECTS
OPENING = ToolProfile(Design(), Play(), ToolUse()).play
PARAMETERS = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": []}
TOOLS = json.dumps(
    [{"type": "function", "function": {"name": "find", "description": "Find it.", "parameters": PARAMETERS}}]
)
FIRST = Observed("Find the new one.", tools=TOOLS)


def call(name="find", arguments="{}"):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


@pytest.fixture
def chat_format():
    chat_format = ToolChatFormat(OPENING, CallFormat(HERMES), 2)
    chat_format.open(FIRST, None)
    return chat_format


@given(instruction=st.text(max_size=40), hint=st.text(min_size=1, max_size=40))
def test_the_hint_is_the_only_difference_between_the_arms_and_follows_the_first_instruction(instruction, hint):
    unhinted = ToolChatFormat(OPENING, CallFormat(HERMES), 8).open(Observed(instruction, tools=TOOLS), None)
    hinted = ToolChatFormat(OPENING, CallFormat(HERMES), 8).open(Observed(instruction, tools=TOOLS), hint)
    assert unhinted.tools == hinted.tools
    assert unhinted.messages[0] == hinted.messages[0]
    assert [message.role for message in unhinted.messages] == ["system", "user"]
    assert unhinted.messages[1].content == instruction
    assert hinted.messages[1].content == f"{instruction}\n\nHint: {hint}"


def test_both_arms_are_told_how_to_submit(chat_format):
    assert "<answer>done</answer>" in chat_format.open(FIRST, None).messages[0].content


def shown(chat_format, text, *results, reply=""):
    act = chat_format.act(text)
    turn = chat_format.turn(Observed(reply, results=tuple(map(ToolResult, results))), act)
    return act, [(message.role, message.content) for message in turn]


def test_each_block_has_its_result_in_its_place(chat_format):
    act, turn = shown(chat_format, f"{call()}<tool_call>{{x</tool_call>{call('close')}", "one", "two")
    assert act.calls == (ToolCall("find"), ToolCall("close"))
    wrong = "the JSON is invalid at character 2: expecting property name enclosed in double quotes"
    assert turn == [("tool", "one"), ("tool", f"Error: this call cannot be read: {wrong}"), ("tool", "two")]


def test_calls_behind_the_most_of_a_message_are_not_executed(chat_format):
    act, turn = shown(chat_format, call() * 4, "one", "two")
    refusal = ("tool", "Error: not executed: a message may have at most 2 calls")
    assert len(act.calls) == 2
    assert turn == [("tool", "one"), ("tool", "two"), refusal, refusal]


@pytest.mark.parametrize(("text", "action"), [
    ("<answer> Done\n</answer>", "Done"),
    ("<answer>not yet</answer>", "not yet"),
    ("<answer></answer>", ""),
    ("<think><answer>done</answer></think>", ""),
    ("<think>" + call() + "<answer>done</answer>", ""),
    ("<think>hm</think><answer>done</answer>", "done"),
    ("done", ""),
])  # fmt: skip
def test_an_answer_is_read_behind_the_thinking(chat_format, text, action):
    act, turn = shown(chat_format, text, reply="Not done: 2 requests are left.")
    assert (act.action, act.calls, act.blocks) == (action, (), ())
    assert turn == [("user", "Not done: 2 requests are left.")]


def test_calls_and_an_answer_of_one_message_are_both_read(chat_format):
    act, turn = shown(chat_format, f"<answer>done</answer>{call()}", "one", reply="Not done: 1 request is left.")
    assert (act.action, act.calls) == ("done", (ToolCall("find"),))
    assert turn == [("tool", "one"), ("user", "Not done: 1 request is left.")]


def test_malformed_calls_alone_get_no_reply_as_if_there_were_none(chat_format):
    act, turn = shown(chat_format, "<tool_call>", reply="Call a tool.")
    assert (act.action, act.calls) == ("", ())
    assert [role for role, _ in turn] == ["tool"]


def test_a_thought_that_the_prompt_begins_is_cut_off():
    chat_format = ToolChatFormat(OPENING, CallFormat(HERMES, opened=True), 8)
    chat_format.open(FIRST, None)
    assert chat_format.act(f"I could {call()} and <answer>done</answer>").blocks == ()
    assert chat_format.act(f"I could {call()}</think>{call('close')}").calls == (ToolCall("close"),)


def test_the_schemas_say_how_arguments_without_types_are_read():
    chat_format = ToolChatFormat(OPENING, CallFormat(XML), 8)
    chat_format.open(FIRST, None)
    written = "<tool_call><function=find><parameter=count>\n5\n</parameter></function></tool_call>"
    assert chat_format.act(written).calls == (ToolCall("find", '{"count": 5}'),)


@given(text=st.text(max_size=80))
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_any_text_is_an_act_and_gets_an_answer(dialect, text):
    chat_format = ToolChatFormat(OPENING, CallFormat(dialect), 8)
    chat_format.open(FIRST, None)
    act = chat_format.act(text)
    assert chat_format.turn(Observed("Call a tool.", results=(ToolResult("x"),) * len(act.calls)), act)


@pytest.mark.parametrize(
    "tools", ["", "[]", "5", '[{"function": 5}]', '[{"function": {"name": "f", "parameters": 5}}]']
)
def test_a_program_that_offers_no_tools_is_unreadable(tools):
    with pytest.raises(UnreadableError):
        ToolChatFormat(OPENING, CallFormat(HERMES), 8).open(Observed("Go.", tools=tools), None)
