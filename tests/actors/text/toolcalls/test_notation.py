"""Calls as people type and read them."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.text.toolcalls.notation import TypedLine, list_argument_names, parse_typed, write_call, write_signature
from tests.actors.text.toolcalls.test_toolcalls import ARGUMENTS

ORDER = {"find": ["status", "most"], "close": ["ticket"]}


def nested(schema, key, levels):
    """A schema in itself; in a test of what it is shown as, which must end."""
    for _ in range(levels):
        schema = {**schema, key: schema}
    return schema


def test_a_call_is_typed_as_in_python_or_as_json():
    found = ("find", '{"status": "new", "most": 3}')
    for line in (
        'find(status="new", most=3)', "find('new', 3)", "  find('new', most = 3) ",
        '{"name": "find", "arguments": {"status": "new", "most": 3}}',
        '[{"name": "find", "arguments": {"status": "new", "most": 3}}]',
    ):  # fmt: skip
        assert parse_typed(line, ORDER) == ((found,), "")
    assert parse_typed("gone(x=[1, {'a': None}], y=True)", ORDER).calls == (
        ("gone", '{"x": [1, {"a": null}], "y": true}'),
    )


def test_a_line_has_several_calls_and_may_submit():
    two = (("find", '{"status": "new"}'), ("close", '{"ticket": "T-7"}'))
    assert parse_typed('find("new"); close("T-7")', ORDER) == (two, "")
    assert parse_typed('find("new"); close("T-7"); done', ORDER) == (two, "done")
    assert parse_typed(" done ", ORDER) == ((), "done")
    json_calls = '{"name": "find", "arguments": {"status": "new"}} {"name": "close", "arguments": {"ticket": "T-7"}}'
    assert parse_typed(json_calls, ORDER) == (two, "")


@pytest.mark.parametrize(("line", "why"), [
    ("", "type a call"),
    ("find(", "this is not a call"), ("find('new') close('x')", "this is not a call"), ("\0", "this is not a call"),
    ("(" * 5_000, "this is not a call"),
    ("hello", "hello is not a call of a tool"), ("x = find('new')", "x = find('new') is not a call"),
    ("self.find()", "is not a call"), ("done; find('new')", "done is not a call"),
    ("find(status=new)", "find: status must be a literal that JSON has, not new"),
    ("find(status=1 + 1)", "must be a literal"), ("find(status={1, 2})", "must be a literal"),
    ("find(most=1e999)", "must be a literal"), ("find(status=__import__('os'))", "must be a literal"),
    ("find('new', 3, 4)", "find takes 2 arguments without a name, 3 are given"),
    ("gone(1)", "gone takes no arguments without a name"),
    ("find('new', status='old')", "given twice"), ("find(**{'a': 1})", "by **"),
    ('{"name": }', "invalid at character 10"), ('{"name": "find"', "ends too early"), ("[1]", "is an object"),
    ('{"arguments": {}}', "has no name"), ('{"name": "find"} x', "invalid at character 1"),
    (f"find(status={'[' * 40}{']' * 40})", "nested too deeply"), (f"find(status={'a' * 70_000!r})", "too long"),
])  # fmt: skip
def test_a_line_that_cannot_be_read_is_refused_in_one_line(line, why):
    with pytest.raises(ValueError, match=r".") as error:
        parse_typed(line, ORDER)
    assert why in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


@given(ARGUMENTS)
def test_a_call_is_read_back_as_it_is_shown(arguments):
    (call,) = parse_typed(write_call("find", json.dumps(arguments)), {}).calls
    assert json.loads(call.arguments) == arguments


@given(st.text(max_size=60))
def test_no_text_is_more_than_refused(line):
    with suppress(ValueError):
        assert isinstance(parse_typed(line, ORDER), TypedLine)


def test_arguments_that_no_call_can_name_are_shown_as_json():
    for arguments in '{"a b": 1}', '{"from": 1}', "{":
        assert write_call("find", arguments) == f'{{"name": "find", "arguments": {arguments}}}'
    assert (
        write_call("find", '{"status": "é", "x": [true, null, {"k": 1.5}]}')
        == 'find(status="é", x=[True, None, {"k": 1.5}])'
    )


def test_a_tool_is_a_signature():
    schema = {
        "type": "object",
        "properties": {
            "status": {"type": "string", "enum": ["new", "open"]},
            "most": {"type": "integer", "minimum": 1, "maximum": 9, "default": 5},
            "tags": {"type": "array", "items": {"type": ["string", "null"]}},
            "extra": {"type": "array"},
            "more": {"type": "object"},
        },
        "required": ["status", "more"],
    }
    told = (
        'find(status: "new" | "open", most: int ≥ 1 ≤ 9 = 5, tags: list[str | None] = …, extra: list = …, more: dict)'
    )
    assert write_signature("find", schema) == told
    assert list_argument_names(schema) == ["status", "most", "tags", "extra", "more"]


@pytest.mark.parametrize("schema", [
    {}, {"properties": 5}, {"properties": {"a": 5}, "required": 5}, {"properties": {"a": {"type": 7, "enum": 8}}},
    {"properties": {"a": {"type": [["x"]], "default": {"b": []}}}},
    {"properties": {"a": {"type": "array", "items": 1}}}, {"properties": {"a": {"type": "integer", "minimum": {}}}},
    {"properties": {"a": nested({"type": ["array"] * 100}, "items", 900)}},
    {"properties": {"a": {"default": nested({}, "x", 900)}}},
])  # fmt: skip
def test_a_schema_that_is_none_is_shown_all_the_same(schema):
    assert write_signature("find", schema).startswith("find(")
    assert list_argument_names(schema) in ([], ["a"])
