"""The diversity of many programs: the share that the Vendi score counts as different."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from actors.text.measures.tfidf import compute_tfidf

Similarities = NDArray[np.float64]
"""Cosine similarities, shape (programs, programs): symmetric, 1 on the diagonal."""
Embedding = Callable[[Sequence[str]], Similarities]
TFIDF = "tfidf"


def load_embedding(name: str) -> Embedding:
    """Load the similarity that `evaluation.embedding` names. Raises ConfigError if it cannot be loaded."""
    if name == TFIDF:
        return compute_tfidf
    from actors.text.measures.sentences import SentenceEmbedding

    return SentenceEmbedding(name)


def compute_vendi_share(similarities: Similarities) -> float:
    """Return the Vendi score / n: 1 / n if all of n programs are alike, 1 if no two have anything in common.

    The score is the exponential of the Shannon entropy of the eigenvalues of similarities / n (Friedman, Dieng 2023).
    """
    n = len(similarities)
    shares = np.linalg.eigvalsh(similarities / n)
    shares = shares[shares > 0]  # rounding may turn an eigenvalue of 0 slightly negative
    return min(float(np.exp(-np.sum(shares * np.log(shares)))) / n, 1.0)
