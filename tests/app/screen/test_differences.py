"""Differences of two states."""

import json

from hypothesis import given
from hypothesis import strategies as st

from spade.app.screen.differences import MOST_LINES, list_differences

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def of(before, after):
    return list_differences(json.dumps(before), json.dumps(after))


def test_new_gone_and_changed_paths_are_told():
    before = {"open": ["T-1", "T-2"], "rooms": {"a b": 1, "c": {"on": False}}, "same": [1]}
    after = {"open": ["T-1", "T-3", "T-4"], "rooms": {"c": {"on": True}, "d": None}, "same": [1]}
    assert of(before, after) == [
        '~ open[1]: "T-2" → "T-3"', '+ open[2] = "T-4"', '- rooms["a b"] = 1', "~ rooms.c.on: false → true",
        "+ rooms.d = null",
    ]  # fmt: skip
    assert of({"n": 1}, {"n": True}) == ["~ n: 1 → true"]
    assert of({"n": {}}, {"n": []}) == ["~ n: {} → []"]


@given(JSON, JSON)
def test_equal_states_alone_have_no_differences(one, two):
    assert of({"x": one}, {"x": one}) == []
    same = json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)
    assert bool(of({"x": one}, {"x": two})) != same


@given(st.text(), st.text())
def test_no_state_steers_a_terminal(key, value):
    for told in of({}, {key: {value: value}}):
        assert told.isprintable()
        assert len(told) < 500


def test_many_differences_are_counted_and_what_cannot_be_compared_is_told():
    assert of({}, {str(n): n for n in range(100)})[MOST_LINES:] == ["  and 60 more"]
    deep = "[" * 100_000 + "]" * 100_000
    assert list_differences("{}", deep) == ["~ the state differs; it cannot be compared"]
    assert list_differences(deep, deep) == list_differences("no JSON", "no JSON") == []
