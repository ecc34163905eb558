"""Similarities of texts by shared words, weighted by TF-IDF. Needs no model."""

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_WORD = re.compile(r"[^\W\d]\w*")


def split_words(source: str) -> list[str]:
    """Return the identifiers, keywords and words of code, comments and strings, in lower case."""
    return _WORD.findall(source.lower())


def compute_tfidf(sources: Sequence[str]) -> NDArray[np.float64]:
    """Return cosine similarities, shape (sources, sources).

    A word's weight in a source is its count there · (ln((1 + n) / (1 + number of sources with the word)) + 1).
    """
    counts = [Counter(split_words(source)) for source in sources]
    having: dict[str, list[int]] = {}
    for place, count in enumerate(counts):
        for word in count:
            having.setdefault(word, []).append(place)
    products = np.zeros((len(counts), len(counts)))
    for word, places in having.items():
        idf = math.log((1 + len(counts)) / (1 + len(places))) + 1
        weights = idf * np.array([counts[place][word] for place in places])
        products[np.ix_(places, places)] += np.outer(weights, weights)
    lengths = np.sqrt(np.maximum(products.diagonal(), np.finfo(float).tiny))
    similarities: NDArray[np.float64] = products / np.outer(lengths, lengths)
    np.fill_diagonal(similarities, 1.0)  # a source without words also equals itself
    return similarities
