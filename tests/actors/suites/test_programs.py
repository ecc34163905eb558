"""Programs of suites: literals alone, whatever a data file says."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.suites.programs import make_class_name, write_program
from spade.errors import RunError

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_values | st.text(st.sampled_from("'\"\\\n\r{}() #\x00\x1b\u2028\ud800")))
def test_a_value_never_becomes_code(value):
    source = write_program("MathAnswerEnv", question=value, answer="1")
    (one,) = ast.parse(source.encode()).body
    assert isinstance(one, ast.ClassDef)
    assert [each.targets[0].id for each in one.body] == ["question", "answer"]
    assert ast.literal_eval(one.body[0].value) == value


@pytest.mark.parametrize("value", [float("inf"), float("nan"), object()])
def test_a_value_that_has_no_literal_is_refused(value):
    with pytest.raises(RunError, match="question: cannot be written"):
        write_program("MathAnswerEnv", question=value)


def test_a_deep_value_is_refused():
    deep = []
    for _ in range(500):
        deep = [deep]
    with pytest.raises(RunError, match="cannot be written"):
        write_program("MathAnswerEnv", question=deep)


def test_a_program_is_a_class_of_three_lines():
    source = write_program(
        "ReasoningGymEnv", make_class_name("chain_sum"), dataset="chain_sum", parameters={"min_terms": 2}
    )
    assert source == (
        "class ChainSumEnv(ReasoningGymEnv):\n    dataset = 'chain_sum'\n    parameters = {'min_terms': 2}\n"
    )
