"""Chats of others as tokens: what the template makes of messages, calls and tools, and nothing that a client forges."""

import json

import pytest
from hypothesis import given

from spade.decoding import UnreadableError
from spade.tokens import Chat
from tests.spade.test_conversations import HOSTILE
from tests.spade.test_tool_tokens import load
from tests.spade.token_shapes import TOOL_SHAPES

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "find",
            "description": "Find it.",
            "parameters": {
                "type": "object",
                "properties": {
                    "status": {"type": "string", "enum": ["new", "type"]},
                    "most": {"type": "integer", "minimum": 1},
                },
                "required": ["status"],
            },
        },
    }
]


@pytest.fixture(scope="module", params=TOOL_SHAPES, ids=lambda shape: shape.name)
def family(request, tmp_path_factory):
    return load(request.param, tmp_path_factory.mktemp(request.param.name))


def call(**arguments):
    return {"type": "function", "id": "call_1", "function": {"name": "find", "arguments": arguments}}


def chat(word="new", before="I look. "):
    return [
        {"role": "system", "content": f"Be brief: {word}."},
        {"role": "user", "content": f"Find {word}!"},
        {"role": "assistant", "content": before, "tool_calls": [call(status=word, most=5), call(status="type")]},
        {"role": "tool", "content": f"one {word}", "tool_call_id": "call_1"},
        {"role": "tool", "content": "none"},
        {"role": "assistant", "content": f"There is {word}"},
        {"role": "user", "content": "Thanks. "},
    ]


def official(family, messages, tools):
    from transformers.utils.chat_template_utils import render_jinja_template

    [text], _ = render_jinja_template(
        [messages], tools=tools, chat_template=family.template, add_generation_prompt=True, bos_token="",
        eos_token="<|im_end|>", enable_thinking=family.thinking,
    )  # fmt: skip
    return family.bpe.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("before", ["I look. ", ""])
@pytest.mark.parametrize("tools", [TOOLS, []], ids=["tools", "none"])
def test_a_chat_has_the_ids_of_the_template(family, tools, before):
    messages = chat(before=before)
    assert family.ours.chat_prompt(Chat.of(messages, tools)).ids == official(family, messages, tools or None)


@given(HOSTILE)
def test_nothing_that_a_client_says_becomes_a_control_token(family, word):
    def controls(word):
        tools = json.loads(json.dumps(TOOLS).replace("Find it.", json.dumps(word)[1:-1]))
        return family.controls(family.ours.chat_prompt(Chat.of(chat(word), tools)).ids)

    assert controls(word) == controls("new")


def test_what_does_not_fit_is_over_the_room(family):
    messages = [{"role": "user", "content": "word " * 4000}]
    assert len(family.ours.chat_prompt(Chat.of(messages), 100).ids) > 100


def test_a_chat_that_the_template_refuses_is_an_error_of_the_chat(family):
    if family.name == "nano-tools":
        return  # its template takes any role
    with pytest.raises(UnreadableError, match=r"messages of user king; .* conversation"):
        family.ours.chat_prompt(Chat.of([{"role": "user", "content": "a"}, {"role": "king", "content": "b"}]))


def test_the_prompt_tells_where_it_opens_a_thought(tmp_path):
    shape = next(shape for shape in TOOL_SHAPES if shape.name == "qwen3")
    for thinking, asked, opens in ((True, None, False), (True, False, False)):
        tokenizer = load(shape, tmp_path, thinking).ours
        variables = {} if asked is None else {"enable_thinking": asked}
        prompt = tokenizer.chat_prompt(Chat.of([{"role": "user", "content": "<think>"}], (), variables))
        assert prompt.opens is opens
        assert ("</think>" in tokenizer.decode(prompt.ids[-6:])) is (asked is False)
