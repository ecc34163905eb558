"""From a trajectory, in which each token is stored once, to the sequences that the model really saw. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spade.codec import unpack_ids, unpack_mask
from spade.protocol import Trajectory


class TokenSequence(NamedTuple):
    """One context, up to the rewind that ended it or to the trajectory's end.

    ids      int32, (tokens,)
    trained  int64, (n,): indices into `ids` of the tokens sampled since the rewind before, ascending
    sampled  the range of these tokens among the trajectory's sampled tokens
    """

    ids: NDArray[np.int32]
    trained: NDArray[np.int64]
    sampled: slice


def sequences(trajectory: Trajectory) -> Iterator[TokenSequence]:
    """The sequences in order. Each sampled token is trained in one of them; `trajectory.contexts` has their lengths."""
    ids, mask = unpack_ids(trajectory.ids), unpack_mask(trajectory)
    context, begin, first = ids[:0], 0, 0
    for end, kept in (*trajectory.rewinds, (trajectory.tokens, 0)):
        trained = np.flatnonzero(mask[begin:end]) + len(context)
        context = np.concatenate([context, ids[begin:end]])
        yield TokenSequence(context, trained, slice(first, first + len(trained)))
        context, begin, first = context[:kept], end, first + len(trained)
