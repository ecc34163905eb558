"""TF-IDF of the package against scikit-learn's, with the same words."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from actors.corpus import load
from actors.nano.games import GAMES
from actors.text.measures.tfidf import compute_tfidf, split_words
from spade.config import SKILLS


def reference(sources):
    """Cosine similarities of scikit-learn; its vectors have length 1."""
    vectors = TfidfVectorizer(analyzer=split_words).fit_transform(sources)
    return (vectors @ vectors.T).toarray()


def test_similarities_of_programs_are_those_of_scikit_learn():
    rng, documents = random.Random(0), load("builtin")
    sources = [GAMES.draw(rng, rng.choice(documents), rng.choice(SKILLS)).source for _ in range(64)]
    assert np.abs(compute_tfidf(sources) - reference(sources)).max() < 1e-12


@given(st.lists(st.text("abAB_1 \n=ä", min_size=1, max_size=30).map("w {}".format), min_size=1, max_size=9))
def test_similarities_of_any_texts_are_those_of_scikit_learn(sources):
    assert compute_tfidf(sources) == pytest.approx(reference(sources))
