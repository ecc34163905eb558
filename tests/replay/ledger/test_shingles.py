"""The likeness of programs by their runs of tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.ledger import environment_memory
from replay.ledger.environment_memory import make_shingles


def earlier(*sources):
    return {f"e{number}": make_shingles(source) for number, source in enumerate(sources)}


def most_similar(source, earlier):
    return environment_memory.find_most_similar(make_shingles(source), earlier)


def test_the_nearest_program_is_named_with_its_share_of_common_runs():
    assert most_similar("a b c d e f", earlier("x", "a b c d e g", "p q r s t")) == (1 / 3, "e1")


def test_space_makes_no_program_another_one_and_a_name_does():
    program = "def f(a, b):\n    return a + b\n"
    assert most_similar(program, earlier("def f( a,b ): return a+b")) == (1.0, "e0")
    similarity, _ = most_similar(program, earlier(program.replace("f", "g")))
    assert 0 < similarity < 1


def test_nothing_is_similar_where_there_is_no_earlier_program():
    assert most_similar("a b", {}) is None


@given(st.text(), st.lists(st.text(), min_size=1, max_size=4))
def test_any_text_has_a_similarity_which_is_the_same_from_both_sides(source, others):
    similarity, nearest = most_similar(source, earlier(*others))
    assert 0 <= similarity <= 1
    assert similarity == most_similar(others[int(nearest[1:])], earlier(source))[0]
    assert most_similar(source, earlier(*others, source))[0] == 1.0


@pytest.mark.parametrize("source", ["(" * 1_000_000, "a" * 1_000_000, '"""\\' * 250_000, "a " * 500_000])
def test_hostile_sources_take_linear_time(source):
    assert len(make_shingles(source)) <= 6
