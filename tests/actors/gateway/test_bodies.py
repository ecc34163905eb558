"""Bodies of requests: what would change the distribution is refused by its name, and nothing that is sent raises."""

import json
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.bodies import MOST_PROMPTS, ChatBody, CompletionBody, read
from actors.gateway.errors import AskError
from actors.gateway.refusals import REFUSALS

CHAT = {"messages": [{"role": "user", "content": "hi"}]}
COMPLETION = {"prompt": [1, 2]}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def chat(**fields):
    return read(json.dumps({**CHAT, **fields}).encode(), ChatBody)


def completion(**fields):
    return read(json.dumps({**COMPLETION, **fields}).encode(), CompletionBody)[0]


@pytest.mark.parametrize("name", sorted(REFUSALS))
def test_what_is_not_supported_is_refused_by_its_name_and_says_why(name):
    why, harmless = REFUSALS[name]
    for value in (0.5, "required", {"type": "json_object"}, [1], True, 3):
        if any(value == each and type(value) is type(each) for each in harmless):
            continue
        with pytest.raises(AskError) as refused:
            chat(**{name: value})
        assert (refused.value.status, refused.value.param) == (400, name)
        assert str(refused.value) == f"{name} is not supported: {why}"
    for value in (None, *harmless):
        assert chat(**{name: value})[1] == []


@pytest.mark.parametrize(
    ("fields", "param", "why"),
    [
        ({"logprobs": 5}, "logprobs", "the sampled token, so it can be 0 or 1"),
        ({"logprobs": 1, "echo": True}, "echo", "with logprobs it asks for log-probabilities of the prompt"),
        ({"best_of": 3}, "best_of", "use n"),
        ({"suffix": "end"}, "suffix", "cannot fill a gap"),
    ],
)
def test_a_refusal_of_a_completion_says_why(fields, param, why):
    with pytest.raises(AskError) as refused:
        completion(**fields)
    assert refused.value.param == param
    assert why in str(refused.value)
    assert "what is sampled" not in str(refused.value)


def test_prompts_are_texts_or_token_ids_or_lists_of_either():
    given = {"go": ["go"], "": [""]}
    assert [completion(prompt=each).prompts() for each in given] == [*given.values()]
    for lists, read_as in (([1, 2], [[1, 2]]), (["a", "b"], ["a", "b"]), ([[1], [2, 3]], [[1], [2, 3]])):
        assert completion(prompt=lists).prompts() == read_as


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"prompt": []}, "not empty"),
        ({"prompt": [1, "a"]}, "a list of texts or of token ids"),
        ({"prompt": [[1], "a"]}, "a list of texts or of token ids"),
        ({"prompt": ["a"] * (MOST_PROMPTS + 1)}, f"{MOST_PROMPTS} answers"),
        ({"prompt": ["a"] * (MOST_PROMPTS // 2), "n": 3}, f"{MOST_PROMPTS} answers"),
    ],
)
def test_prompts_that_cannot_be_answered_are_named(fields, why):
    with pytest.raises(AskError) as refused:
        completion(**fields).prompts()
    assert refused.value.param == "prompt"
    assert why in str(refused.value)


def test_other_fields_are_ignored_and_told():
    assert chat(store=True, user="me", colour="blue", stream=None)[1] == ["colour"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": -1}, "temperature"), ({"top_p": 0}, "top_p"), ({"top_p": 1.5}, "top_p"), ({"n": 65}, "n"),
        ({"n": 0}, "n"), ({"max_tokens": 0}, "max_tokens"), ({"seed": 1.5}, "seed"), ({"stop": ""}, "stop"),
        ({"stop": ["x" * 300]}, "stop"), ({"stop": ["a"] * 17}, "stop"), ({"messages": []}, "messages"),
        ({"messages": [{"content": "a"}]}, "messages"), ({"chat_template_kwargs": {"date": 1}}, "chat_template_kwargs"),
        ({"tools": [{"type": "function"}]}, "tools"), ({"stream": "yes"}, "stream"),
    ],
)  # fmt: skip
def test_a_field_out_of_its_bounds_is_named(fields, param):
    with pytest.raises(AskError) as refused:
        chat(**fields)
    assert refused.value.param == param
    assert refused.value.status == 400


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b'"a"', b"[" * 10**5, b'{"messages": 1}', b"{}"])
def test_a_body_that_is_no_request_is_refused(data):
    for kind in (ChatBody, CompletionBody):
        with pytest.raises(AskError):
            read(data, kind)


@given(st.sampled_from(ChatBody.__struct_fields__ + CompletionBody.__struct_fields__), VALUES)
def test_no_value_of_a_field_raises_anything_else(name, value):
    for kind, whole in ((ChatBody, CHAT), (CompletionBody, COMPLETION)):
        with suppress(AskError):
            body, _ = read(msgspec.json.encode({**whole, name: value}), kind)
            assert isinstance(body.stops, tuple)
