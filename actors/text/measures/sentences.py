"""Similarities of texts by an embedding model of the package sentence-transformers (extra `measures`)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spade.errors import ConfigError, format_reason
from spade.extras import require

BATCH = 8


class SentenceEmbedding:
    """An embedding model on the CPU, because the GPUs belong to the engines and the learner.

    The model cuts texts that are too long for it. The vectors of a call are kept for the next call.
    """

    def __init__(self, name: str) -> None:
        """Load a model from a folder or by its hub name. Raises ConfigError if that fails."""
        require("measures")
        from sentence_transformers import SentenceTransformer

        try:
            self._model: Any = SentenceTransformer(name, device="cpu")
        except (OSError, ValueError, KeyError) as error:
            why = next(iter(format_reason(error).splitlines()), "")  # the package's message has many lines
            raise ConfigError(
                f"evaluation.embedding: {name!r} cannot be loaded ({why}); give 'tfidf', or the folder or "
                "hub name of a sentence-transformers model"
            ) from None
        self._known: dict[str, NDArray[np.float64]] = {}

    def __call__(self, sources: Sequence[str]) -> NDArray[np.float64]:
        """Return cosine similarities, shape (sources, sources)."""
        new = [source for source in dict.fromkeys(sources) if source not in self._known]
        if new:
            vectors = self._model.encode(new, batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False)
            self._known |= dict(zip(new, np.asarray(vectors, dtype=np.float64), strict=True))
        self._known = {source: self._known[source] for source in sources}
        stacked = np.stack([self._known[source] for source in sources])
        return stacked @ stacked.T
