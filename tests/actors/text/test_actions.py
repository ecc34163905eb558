import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.text.actions import answer, find_action, find_boxed, format_action, read_typed_action

plain = st.text(alphabet=st.characters(exclude_characters="{}\\", codec="utf-8"), max_size=8)
nested = st.recursive(plain, lambda inner: st.tuples(plain, inner, plain).map(lambda t: f"{t[0]}{{{t[1]}}}{t[2]}"))


@pytest.mark.parametrize(("text", "action"), [
    (r"I go \boxed{left}", "left"),
    (r"End with \boxed{action}. So: \boxed{ open 3 }.", "open 3"),
    (r"\boxed{f{a{b}c}}", "f{a{b}c}"),
    (r"\boxed{left} or rather \boxed{rig", "left"),
    (r"\boxed{left \boxed{right}", "right"),
    (r"\boxed{a \boxed{b} c}", r"a \boxed{b} c"),
    (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
    (r"\boxed{\{1, 2\}} }", r"\{1, 2\}"),
    (r"\boxed{a\}b}", r"a\}b"),
    (r"{ \boxed{in} } }", "in"),
    (r"'\\boxed{in}'", "in"),
    (r"\boxed{}", ""),
    (r"\boxed left", ""),
    (r"\boxed {left}", "left"),
    ("", ""),
])  # fmt: skip
def test_the_last_complete_box_counts(text, action):
    assert find_boxed(text) == action


@given(plain, nested, plain)
def test_braces_nest(before, content, after):
    assert find_boxed(f"{before}\\boxed{{first}} \\boxed{{{content}}}{after}") == content.strip()


@given(st.text(alphabet="\\boxed{} x", max_size=60))
def test_an_action_that_is_found_was_in_a_box(text):
    found = find_boxed(text)
    assert found in text
    assert not found or re.search(r"\\boxed *\{", text)


def test_a_model_that_only_opens_boxes_costs_no_time():
    assert find_boxed("\\boxed{" * 200_000) == ""


@pytest.mark.parametrize(("completion", "said"), [
    ("plain", "plain"),
    ("<think>maybe \\boxed{a}</think>so \\boxed{b}", "so \\boxed{b}"),
    ("the template opened it</think>said", "said"),
    ("<think>cut while thinking of \\boxed{a}", ""),
])  # fmt: skip
def test_thinking_is_not_said(completion, said):
    assert answer(completion) == said


def test_a_model_acts_by_the_last_box_behind_its_thinking():
    assert find_action("<think>\\boxed{a}</think>first \\boxed{b}, no: \\boxed{c}") == "c"
    assert find_action("I go left") == ""


@pytest.mark.parametrize(
    ("text", "action"), [("left", "left"), (" open 3 \n", "open 3"), (r"I say \boxed{left}", "left"), ("", "")]
)
def test_a_person_needs_no_box_to_act(text, action):
    assert read_typed_action(text) == action


@pytest.mark.parametrize(
    ("action", "box"),
    [
        ("go north", r"\boxed{go north}"),
        (r"\frac{1}{2}", r"\boxed{\frac{1}{2}}"),
        (r"\boxed{7}", r"\boxed{7}"),
        (r"I say \boxed{7}", r"I say \boxed{7}"),
        ("", ""),
    ],
)
def test_an_action_is_sent_in_one_box_at_most_and_only_to_what_reads_it(action, box):
    assert format_action(action, "inside") == action
    assert format_action(action, "box") == box


@given(nested)
def test_a_program_finds_the_action_in_its_box(content):
    assert find_boxed(format_action(content.strip(), "box")) == content.strip()
