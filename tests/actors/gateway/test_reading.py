"""Answers as messages: the thought, the text, the calls, and what cannot be read as a call."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.bodies import ChatBody, read
from actors.gateway.chats import convert_chat, cut_at_stops, format_arguments, parse_answer
from actors.gateway.errors import AskError
from actors.text.toolcalls import DIALECTS

HERMES = DIALECTS[0]
GOOD = '<tool_call>\n{"name": "find", "arguments": {"word": "é"}}\n</tool_call>'
BAD = '<tool_call>\n{"name": "find", "arguments": {\n</tool_call>'


def parts(text, opened=False, dialect=HERMES):
    found = parse_answer(text, opened, dialect, {})
    return found.content, [(call.name, format_arguments(call)) for call in found.calls], found.thought


@pytest.mark.parametrize(
    ("text", "opened", "expected"),
    [
        ("left", False, ("left", [], None)),
        ("", False, ("", [], None)),
        ("<think>\nHm.\n</think>\n\nleft", False, ("left", [], "Hm.")),
        ("Hm.\n</think>\n\nleft", True, ("left", [], "Hm.")),
        ("<think>\nHm", False, ("", [], "Hm")),
        ("Hm", True, ("", [], "Hm")),
        ("I <think> so", False, ("I <think> so", [], None)),
        (GOOD, False, ("", [("find", '{"word": "é"}')], None)),
        (f"I look.\n{GOOD}\n{GOOD}\nDone.", False, ("I look.", [("find", '{"word": "é"}')] * 2, None)),
        (BAD, False, (BAD, [], None)),
        (f"I look. {BAD}", False, (f"I look. {BAD}", [], None)),
        (f"a {GOOD}{BAD}", False, (f"a\n{BAD}", [("find", '{"word": "é"}')], None)),
        (f"{BAD}{GOOD}", False, (BAD, [("find", '{"word": "é"}')], None)),
        (f"<think>{GOOD}</think>left", False, ("left", [], GOOD)),
    ],
)
def test_an_answer_is_read(text, opened, expected):
    assert parts(text, opened) == expected


def test_without_tools_nothing_is_a_call():
    assert parts(GOOD, dialect=None) == (GOOD, [], None)


PIECES = [*'ab{}":\n', "<tool_call>", "</tool_call>", "<think>", "</think>", GOOD]


@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_any_answer_is_read(pieces):
    text = "".join(pieces)
    for opened in (False, True):
        content, calls, thought = parts(text, opened)
        assert content is not None
        assert all(json.loads(arguments) is not None for _, arguments in calls)
        assert thought is None or "</think>" not in thought


def test_an_answer_ends_before_its_first_stop():
    assert cut_at_stops("one two three", ["three", "two"]) == "one "
    assert cut_at_stops("one", ["three"]) == "one"


def test_an_answer_that_keeps_its_stop_ends_with_it():
    """A token may have text behind the stop."""
    assert cut_at_stops("one two three", ["three", "two"], keep=True) == "one two"
    assert cut_at_stops("one", ["three"], keep=True) == "one"


def chat(*messages, **fields):
    return convert_chat(read(json.dumps({"messages": messages, **fields}).encode(), ChatBody)[0], [])


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"role": "king", "content": "a"}, "messages[0].role: 'king' is none of"),
        ({"role": "user"}, "messages[0].content: is missing"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {}}]}, "type 'image_url' is not supported"),
        ({"role": "user", "content": [{"type": "text"}]}, "a part of type 'text' has no text"),
        ({"role": "user", "content": "a", "tool_calls": [{"function": {"name": "f"}}]}, "only an assistant may call"),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[1]"}}]},
            "messages[0].tool_calls: arguments must be the JSON text of an object",
        ),
    ],
)
def test_a_message_that_cannot_be_shown_is_named(message, why):
    with pytest.raises(AskError) as refused:
        chat(message)
    assert why in str(refused.value)
    assert refused.value.param == "messages"


def test_contents_may_be_parts_and_developers_are_the_system():
    found = chat(
        {"role": "developer", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": ""}}]},
    )
    assert found.contents == ("Be brief", "")
    assert [message["role"] for message in json.loads(found.skeleton)["messages"]] == ["system", "assistant"]


def test_what_is_nested_too_deeply_is_refused():
    arguments = json.dumps({"a": 1}).replace("1", "[" * 900 + "]" * 900)
    call = {"id": "1", "function": {"name": "f", "arguments": arguments}}
    with pytest.raises(AskError):
        chat({"role": "assistant", "tool_calls": [call]})
