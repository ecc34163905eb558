"""Turn a trajectory, which stores each token once, into the sequences that the model really saw. Pure functions."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spade.codec import unpack_ids, unpack_mask
from spade.protocol import Trajectory


class TokenSequence(NamedTuple):
    """The context at one rewind, before it is cut back, or at the end of the trajectory."""

    ids: NDArray[np.int32]
    """Token ids of the context: int32, (tokens,)."""

    trained: NDArray[np.int64]
    """int64, (n,): ascending indices into `ids` of the tokens that were sampled after the previous rewind."""

    sampled: slice
    """Range of these n tokens among the trajectory's sampled tokens."""


def split_sequences(trajectory: Trajectory) -> Iterator[TokenSequence]:
    """Yield the sequences in order. Each sampled token is trained in exactly one sequence.

    `trajectory.contexts` has the lengths of the sequences.
    """
    ids, mask = unpack_ids(trajectory.ids), unpack_mask(trajectory)
    context, begin, first = ids[:0], 0, 0
    for end, kept in (*trajectory.rewinds, (trajectory.tokens, 0)):
        trained = np.flatnonzero(mask[begin:end]) + len(context)
        context = np.concatenate([context, ids[begin:end]])
        yield TokenSequence(context, trained, slice(first, first + len(trained)))
        context, begin, first = context[:kept], end, first + len(trained)
