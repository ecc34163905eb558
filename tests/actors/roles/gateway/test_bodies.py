"""Bodies of requests: what would change the distribution is refused by its name, and nothing that is sent raises."""

import json
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.roles.gateway.bodies import HARMLESS, ChatBody, CompletionBody, read
from actors.roles.gateway.errors import AskError

CHAT = {"messages": [{"role": "user", "content": "hi"}]}
COMPLETION = {"prompt": [1, 2]}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def chat(**fields):
    return read(json.dumps({**CHAT, **fields}).encode(), ChatBody)


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_what_would_change_the_distribution_is_refused_by_its_name(name):
    for value in (0.5, "required", {"type": "json_object"}, [1], True, 3):
        if any(value == each and type(value) is type(each) for each in HARMLESS[name]):
            continue
        with pytest.raises(AskError) as refused:
            chat(**{name: value})
        assert (refused.value.status, refused.value.param) == (400, name)
        assert str(refused.value) == f"{name} is not supported: it would change what is sampled"
    for value in (None, *HARMLESS[name]):
        assert chat(**{name: value})[1] == []


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
