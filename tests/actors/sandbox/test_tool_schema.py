"""Schemas of tools against the library `jsonschema`, on our subset of its language."""

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from enum import Enum, IntEnum
from typing import Any, Literal, NewType, Optional, TypedDict, Union

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.sandbox.inside.tools.annotations import Caller, derive, fit
from actors.sandbox.inside.tools.schema import (
    ArgumentsError,
    SchemaError,
    check_arguments,
    check_parameters,
    check_schema,
    read_arguments,
)

TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")
NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, -1.5, 2.0, "", "1", "x"])
KEYWORDS = ["type", "properties", "required", "enum", "items", "minimum", "description", "anyOf", "a"]
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=5
)


def schemas(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True),
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "enum": st.lists(VALUES, min_size=1, max_size=3),
            "items": inner,
            "minimum": st.sampled_from([-1, 0.5, 1]),
            "maximum": st.sampled_from([-1, 0.5, 1]),
            "description": st.text(max_size=3),
            "default": VALUES,
        },
    )


SCHEMAS = st.recursive(st.just({}), schemas, max_leaves=4)
TOOLS = st.dictionaries(NAMES, SCHEMAS, max_size=3).flatmap(
    lambda properties: st.builds(
        lambda required: {"type": "object", "properties": properties, "required": required},
        st.lists(st.sampled_from(sorted(properties) or ["a"]), max_size=2, unique=True) if properties else st.just([]),
    )
)


def fits(arguments: dict[str, Any], schema: dict[str, Any]) -> bool:
    try:
        check_arguments(read_arguments(json.dumps(arguments)), schema)
    except ArgumentsError:
        return False
    return True


@settings(max_examples=400)
@given(TOOLS, st.dictionaries(NAMES, VALUES, max_size=3))
def test_arguments_fit_where_jsonschema_finds_that_they_do(schema, arguments):
    whole = check_parameters(schema)
    assert json.dumps(whole) == json.dumps(schema)
    theirs = jsonschema.Draft202012Validator({**schema, "additionalProperties": False}).is_valid(arguments)
    assert fits(arguments, whole) == theirs


@given(SCHEMAS)
def test_a_schema_of_the_subset_is_one_of_json_schema(schema):
    check_schema(schema, "parameters")
    jsonschema.Draft202012Validator.check_schema(schema)


def nested(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4)


@given(st.recursive(SCALARS, nested, max_leaves=6))
def test_what_is_taken_for_a_schema_is_one(value):
    with suppress(SchemaError):
        check_parameters(value)
        jsonschema.Draft202012Validator.check_schema(value)


WRONG_SCHEMAS = [
    ({"properties": {"a": {"anyOf": []}}}, "parameters.properties.a.anyOf: this keyword is not supported"),
    ({"properties": {"a": {"items": {"pattern": "x"}}}}, "parameters.properties.a.items.pattern: this keyword"),
    ({"additionalProperties": False}, "parameters.additionalProperties: this keyword"),
    ({"type": "array"}, 'parameters.type: must be "object", is "array"'),
    ({"type": ["object", "null"]}, "parameters.type"),
    ({"properties": {"a": {"type": "str"}}}, 'parameters.properties.a.type: "str" is not one of string'),
    ({"properties": {"a": {"type": ["string", "string"]}}}, "parameters.properties.a.type: must be a type or a list"),
    ({"properties": {"a": {"type": []}}}, "parameters.properties.a.type"),
    ({"properties": {"a": {"enum": []}}}, "parameters.properties.a.enum: must be a list of values"),
    ({"properties": {"a": {"minimum": True}}}, "parameters.properties.a.minimum: must be a number, is true"),
    ({"properties": {"a": True}}, "parameters.properties.a: must be an object, is true"),
    ({"properties": [1]}, "parameters.properties: must be an object"),
    ({"required": ["a"]}, 'parameters.required: "a" is not among the properties'),
    ({"required": "a"}, "parameters.required: must be a list of names"),
    ("x" * 999, "parameters: must be an object"),
]


@pytest.mark.parametrize(("schema", "words"), WRONG_SCHEMAS)
def test_a_wrong_schema_is_refused_by_its_path(schema, words):
    with pytest.raises(SchemaError) as refused:
        check_parameters(schema)
    assert str(refused.value).startswith(words)
    assert len(str(refused.value)) < 200


SCHEMA = check_parameters({
    "properties": {
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "kind": {"enum": ["new", 1, None]},
        "filter": {
            "type": "object",
            "properties": {"tags": {"type": "array", "items": {"type": "string"}}},
            "required": ["by"],
        },
    },
    "required": ["count"],
})  # fmt: skip
WRONG_ARGUMENTS = [
    ({}, "count: is missing"),
    ({"count": 1, "x\ny": 2}, '"x\\ny": there is no such argument; there are: count, kind, filter'),
    ({"count": "5"}, 'count: must be of type integer, is "5"'),
    ({"count": True}, "count: must be of type integer, is true"),
    ({"count": 1.5}, "count: must be of type integer, is 1.5"),
    ({"count": 0}, "count: must be at least 1, is 0"),
    ({"count": 10}, "count: must be at most 9, is 10"),
    ({"count": 1, "kind": True}, 'kind: must be one of "new", 1, null; is true'),
    ({"count": 1, "filter": {}}, "filter.by: is missing"),
    ({"count": 1, "filter": {"by": 0, "tags": ["a", 2]}}, "filter.tags[1]: must be of type string, is 2"),
    ({"count": "x" * 999}, 'count: must be of type integer, is "xxx'),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG_ARGUMENTS)
def test_wrong_arguments_are_refused_in_one_line_with_the_path(arguments, words):
    with pytest.raises(ArgumentsError) as refused:
        check_arguments(arguments, SCHEMA)
    assert str(refused.value).startswith(words)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 200


def test_a_number_without_a_fraction_is_an_integer_and_an_int():
    arguments = read_arguments('{"count": 5.0, "kind": 1.0}')
    check_arguments(arguments, SCHEMA)
    assert [type(value) for value in arguments.values()] == [int, int]


@given(st.dictionaries(st.text(), VALUES, max_size=3))
def test_arguments_are_read_as_json_has_them(arguments):
    assert read_arguments(json.dumps(arguments)) == arguments


UNREADABLE = [
    ("", "not JSON"), ("{", "not JSON"), ("[]", "must be an object"), ("null", "must be an object"),
    ('{"a": NaN}', "NaN"), ('{"a": -Infinity}', "-Infinity"), ('{"a": 1e999}', "1e999"),
    ('{"a": ' + "9" * 5000 + "}", "not JSON"), ("{} {}", "not JSON"),
    ('{"a": "\\ud800"}', "surrogate"), ('{"\\udfff": 1}', "surrogate"),
    ('{"a":' * 40 + "1" + "}" * 40, "nested"), ("[" * 60_000, "nested"), ('{"a":' * 9_000, "nested"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), UNREADABLE)
def test_arguments_that_are_no_json_object_are_refused(text, words):
    with pytest.raises(ArgumentsError, match=words):
        read_arguments(text)


def every(
    self: object, name: str, count: int, share: float, sure: bool, tags: list[str], more: dict[str, int], plain: list,
    kind: Literal["new", "old"], level: Literal[1, "x"], until: int | None, near: Optional[Literal["a"]],  # noqa: UP045
    by: str = "me", *, limit: int = 3, at: float | None = None,
) -> str:  # fmt: skip
    """Every annotation there is."""


def test_a_schema_is_derived_from_annotations_and_defaults():
    schema = derive(every.__get__(object()))
    assert schema["properties"] == {
        "name": {"type": "string"},
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "sure": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "more": {"type": "object"},
        "plain": {"type": "array"},
        "kind": {"type": "string", "enum": ["new", "old"]},
        "level": {"type": ["integer", "string"], "enum": [1, "x"]},
        "until": {"type": ["integer", "null"]},
        "near": {"type": ["string", "null"], "enum": ["a", None]},
        "by": {"type": "string", "default": "me"},
        "limit": {"type": "integer", "default": 3},
        "at": {"type": ["number", "null"]},
    }
    assert schema["required"] == list(schema["properties"])[:11]
    assert check_parameters(schema) == schema
    fit(every.__get__(object()), schema)


class Level(Enum):
    LOW = "low"
    HIGH = "high"


class Rank(IntEnum):
    FIRST = 1


class Share(Enum):
    WHOLE = 1.0
    NO = False


Title = NewType("Title", str)


def ordinary(
    self: object, first: Title, /, share: Union[int, float], either: int | str, level: Level, ranks: list[Rank],  # noqa: UP007
    until: Optional[Level] = None, both: Level | Literal["off"] = Level.LOW, none: Union[None, int] = 3,  # noqa: RUF036, UP007, UP045
    *more: int, **rest: str,
) -> object:  # fmt: skip
    """Annotations as they are usually written."""
    return first, share, either, level, ranks, until, both, none, more, rest


def test_ordinary_annotations_have_a_schema():
    schema = derive(ordinary.__get__(object()))
    assert schema["properties"] == {
        "first": {"type": "string"},
        "share": {"type": "number"},
        "either": {"type": ["integer", "string"]},
        "level": {"type": "string", "enum": ["low", "high"]},
        "ranks": {"type": "array", "items": {"type": "integer", "enum": [1]}},
        "until": {"type": ["string", "null"], "enum": ["low", "high", None]},
        "both": {"type": "string", "enum": ["low", "high", "off"], "default": "low"},
        "none": {"type": ["integer", "null"], "default": 3},
    }
    assert schema["required"] == ["first", "share", "either", "level", "ranks"]
    assert check_parameters(schema) == schema
    fit(ordinary.__get__(object()), schema)


def test_a_method_gets_the_members_of_its_enums_and_its_arguments_by_place():
    method = ordinary.__get__(object())
    values = {"first": "a", "share": 1, "either": "low", "level": "high", "ranks": [1], "until": None, "both": "off"}
    got = Caller(method)(method, values)
    assert got == ("a", 1, "low", Level.HIGH, [Rank.FIRST], None, "off", 3, (), {})
    assert type(got[4][0]) is Rank
    assert Caller(method)(method, values | {"until": "low"})[5] is Level.LOW


class Row(TypedDict):
    level: str


def general(self: object, ranks: Sequence[Rank], by: Mapping[str, Level], some: Collection, row: Row) -> object:
    return ranks, by, some, row


def test_a_general_type_of_a_list_or_an_object_stands_for_it():
    method = general.__get__(object())
    assert derive(method)["properties"] == {
        "ranks": {"type": "array", "items": {"type": "integer", "enum": [1]}},
        "by": {"type": "object"},
        "some": {"type": "array"},
        "row": {"type": "object"},
    }
    values = {"ranks": [1], "by": {"a": "low"}, "some": [1], "row": {"level": "low"}}
    assert Caller(method)(method, values) == ([Rank.FIRST], {"a": Level.LOW}, [1], {"level": "low"})


def shared(self: object, share: Share | None) -> object:
    return share


def test_a_number_without_a_fraction_is_the_float_of_an_enum_and_true_is_not_one():
    method = shared.__get__(object())
    given = [Caller(method)(method, {"share": share}) for share in (1, 1.0, False, None)]
    assert given == [Share.WHOLE, Share.WHOLE, Share.NO, None]


def bare(self: object, name) -> str: ...
def mixed(self: object, name: int | Literal["auto"]) -> str: ...
def pair(self: object, name: tuple[int, int]) -> str: ...
def lists(self: object, name: list[int] | list[str]) -> str: ...
def odd(self: object, name: Literal[b"x"]) -> str: ...
def anything(self: object, name: Any) -> str: ...


class Bytes(Enum):
    ONE = b"1"


def bytewise(self: object, name: Bytes) -> str: ...


@pytest.mark.parametrize("method", [bare, mixed, pair, lists, odd, anything, bytewise])
def test_a_method_that_has_no_schema_is_refused_by_its_parameter(method):
    with pytest.raises(SchemaError, match=r"^name: "):
        derive(method.__get__(object()))


def wide(self: object, a: str, b: str = "", **more: str) -> str: ...
def narrow(self: object, a: str, b: str = "") -> str: ...


def test_a_declared_schema_must_fit_its_method():
    one, two = ({"properties": {name: {} for name in names}, "required": [*"a"]} for names in ("ab", "ac"))
    for method, schema in ((wide, one), (narrow, one), (wide, two)):
        fit(method.__get__(object()), schema)
    with pytest.raises(SchemaError, match=r"properties\.c: .*has no parameter"):
        fit(narrow.__get__(object()), two)
    with pytest.raises(SchemaError, match=r"required: .* parameter a"):
        fit(narrow.__get__(object()), {"properties": {"a": {}}, "required": []})
