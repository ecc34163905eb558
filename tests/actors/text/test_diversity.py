"""The Vendi score and TF-IDF against numbers worked out by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.text.measures.diversity import compute_vendi_share, load_embedding
from actors.text.measures.tfidf import compute_tfidf, split_words

TEXTS = st.lists(st.text("abc \n=_1", max_size=20), min_size=1, max_size=8)


def test_programs_that_are_all_alike_count_as_one():
    assert compute_vendi_share(np.ones((4, 4))) == pytest.approx(1 / 4)


def test_programs_without_anything_in_common_count_each():
    assert compute_vendi_share(np.eye(5)) == pytest.approx(1.0)


def test_three_kinds_of_four_programs_count_as_the_entropy_of_their_shares():
    similarities = np.eye(4)
    similarities[0, 1] = similarities[1, 0] = 1.0
    entropy = -(1 / 2 * math.log(1 / 2) + 2 * 1 / 4 * math.log(1 / 4))  # shares 1/2, 1/4, 1/4
    assert compute_vendi_share(similarities) == pytest.approx(math.exp(entropy) / 4)


def test_two_programs_half_alike():
    # The eigenvalues of [[1, 1/2], [1/2, 1]] / 2 are 3/4 and 1/4.
    entropy = -(3 / 4 * math.log(3 / 4) + 1 / 4 * math.log(1 / 4))
    assert compute_vendi_share(np.array([[1.0, 0.5], [0.5, 1.0]])) == pytest.approx(math.exp(entropy) / 2)


def test_words_are_identifiers_and_words_in_lower_case():
    assert split_words('self.Goal_1 = 20  # the "höchste" x2') == ["self", "goal_1", "the", "höchste", "x2"]


def test_a_shared_word_weighs_less_than_a_rare_one():
    # n = 2. "a" is in both: idf ln(3/3) + 1 = 1; "b" and "c" are in one: ln(3/2) + 1. Counts of "a": 2 and 1.
    rare = math.log(3 / 2) + 1
    cosine = 2 * 1 / (math.hypot(2, rare) * math.hypot(1, rare))
    assert compute_tfidf(["a b a", "c a"]) == pytest.approx(np.array([[1, cosine], [cosine, 1]]))


def test_a_text_without_words_is_like_itself_alone():
    assert compute_tfidf(["1 + 2", "a", "3"]).tolist() == np.eye(3).tolist()


@given(TEXTS)
def test_similarities_are_cosines_and_the_share_is_one(sources):
    found = load_embedding("tfidf")(sources)
    assert np.allclose(found, found.T)
    assert found.diagonal() == pytest.approx(1.0)
    assert (found > -1e-9).all()
    assert (found < 1 + 1e-9).all()
    assert 1 / len(sources) - 1e-9 <= compute_vendi_share(found) <= 1.0


@given(TEXTS, st.randoms())
def test_order_is_nothing_to_the_share_and_twins_halve_it(sources, random):
    share = compute_vendi_share(compute_tfidf(sources))
    shuffled = random.sample(sources, len(sources))
    assert compute_vendi_share(compute_tfidf(shuffled)) == pytest.approx(share)
    once = compute_tfidf(sources)
    assert compute_vendi_share(np.tile(once, (2, 2))) == pytest.approx(share / 2)
