"""From a batch of groups to micro-batches of packed sequences, cut by tokens.

A trajectory of several sequences becomes several rows; `whole` keeps their common weight at that of one trajectory.

The sequences of a micro-batch lie in one row without padding, and a beginning that several of them share lies there
once (`learner.prefixes`). Attention stays within each sequence (`learner.models.attention`). Only the positions whose
next token is trained go on to the vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from learner.advantage import designer_weight, group_advantages
from learner.prefixes import Counts, cut, even_limit, lay_out, lexicographic, shared_lengths
from spade.codec import unpack_floats
from spade.protocol import Group, Trajectory
from spade.sequences import sequences


class Row(NamedTuple):
    """One sequence to train on, cut after its last trained token.

    ids         int32, (tokens,)
    trained     int64, (n,): indices into `ids` of the trained tokens, ascending
    behaviour   float32, (n,): their log-probabilities at sampling time
    version     int64, (n,): the policy versions that sampled them
    whole       trained tokens of the trajectory, in all its sequences
    """

    ids: NDArray[np.int32]
    trained: NDArray[np.int64]
    behaviour: NDArray[np.float32]
    version: NDArray[np.int64]
    temperature: float
    advantage: float
    weight: float
    designer: bool
    whole: int

    @property
    def read(self) -> NDArray[np.int32]:
        """The tokens that the model reads: nothing follows the last one."""
        return self.ids[:-1]


@dataclass(frozen=True)
class MicroBatch:
    """Whole sequences packed into one row, and one entry for each of their trained tokens, in that order.

    ids           int64, (tokens,): the tokens read, all but the last of each sequence; a shared beginning is there once
    positions     int64, (tokens,): position in the sequence, from 0
    lengths       tokens of each segment of the row, (segments,)
    parents       index of the segment that each segment continues, -1 if sequences begin with it, (segments,)
    at            int64, (n,): index into `ids` of the token before the trained one; its logits predict that one.
                  Sequences that share a beginning share indices
    sequence      int64, (n,): index of its sequence, from 0, ascending
    whole         float32, (n,): trained tokens of its trajectory, in all its sequences
    target        int64, (n,): the trained token
    behaviour     float32, (n,): log-probability at sampling time
    temperature   float32, (n,): temperature at sampling time
    advantage     float32, (n,)
    weight        float32, (n,): 1 for the agent's tokens, the designer weight for the designer's
    designer      bool, (n,)
    version       int64, (n,): policy version of the sampler
    """

    ids: Tensor
    positions: Tensor
    lengths: tuple[int, ...]
    parents: tuple[int, ...]
    at: Tensor
    sequence: Tensor
    whole: Tensor
    target: Tensor
    behaviour: Tensor
    temperature: Tensor
    advantage: Tensor
    weight: Tensor
    designer: Tensor
    version: Tensor

    def to(self, device: torch.device) -> "MicroBatch":
        """Return the micro-batch on another device."""
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        tensors = {name: value.to(device) for name, value in values.items() if torch.is_tensor(value)}
        return MicroBatch(**values | tensors)


@dataclass(frozen=True)
class Prepared:
    """A learner step's work. `trained_tokens` is the denominator of every micro-batch's loss.

    read_tokens         tokens read of all sequences, a shared beginning counted for each of them
    agent_sequences     trajectories, not their sequences; so are `designer_sequences`
    """

    micro: tuple[MicroBatch, ...]
    trained_tokens: int
    read_tokens: int
    agent_sequences: int
    designer_sequences: int
    designer_weight: float

    @property
    def computed_tokens(self) -> int:
        """The tokens read of all micro-batches, a shared beginning counted once in each."""
        return sum(len(micro.ids) for micro in self.micro)


def prepare(
    groups: Sequence[Group], microbatch_tokens: int, designer_weight_max: float, ranks: int = 1, share: bool = True
) -> Prepared:
    """Cut the groups into micro-batches of at most `microbatch_tokens` (see `cut`; a longer sequence goes alone).

    The order is a function of the groups alone: sequences in lexicographic order, equal ones as they came. Several
    ranks get micro-batches of about the same size. Without `share` every sequence is computed whole.
    Raises ValueError if no token of the batch can be trained.
    """
    weight = designer_weight(groups, designer_weight_max)
    rows = [row for group in groups for row in _rows(group, weight) if len(row.trained)]
    if not rows:
        raise ValueError("a batch without one trained token")
    rows = [rows[index] for index in lexicographic([row.read for row in rows])]
    lengths = np.array([len(row.read) for row in rows])
    shared = shared_lengths([row.read for row in rows]) if share else np.zeros_like(lengths)
    limit = even_limit(lengths, shared, microbatch_tokens, ranks) if ranks > 1 else microbatch_tokens
    return Prepared(
        micro=tuple(_pack(rows[part], shared[part]) for part in cut(lengths, shared, limit)),
        trained_tokens=sum(len(row.trained) for row in rows),
        read_tokens=int(lengths.sum()),
        agent_sequences=_count(groups, "agent"),
        designer_sequences=_count(groups, "designer"),
        designer_weight=weight,
    )


def _count(groups: Sequence[Group], role: str) -> int:
    return sum(len(group.trajectories) for group in groups if group.role == role)


def _rows(group: Group, weight: float) -> Iterator[Row]:
    designer = group.role == "designer"
    for trajectory, advantage in zip(group.trajectories, group_advantages(group), strict=True):
        yield from _trajectory(trajectory, float(advantage), weight if designer else 1.0, designer)


def _trajectory(trajectory: Trajectory, advantage: float, weight: float, designer: bool) -> Iterator[Row]:
    """The rows of a trajectory. Raises ValueError if a sequence has no prompt: no token predicts its first one."""
    behaviour = unpack_floats(trajectory.logprobs)
    versions, counts = np.asarray(trajectory.versions, dtype=np.int64).reshape(-1, 2).T
    version = np.repeat(versions, counts)
    for ids, trained, sampled in sequences(trajectory):
        if len(trained) and trained[0] == 0:
            raise ValueError("a trajectory that starts with a sampled token has no prompt to learn from")
        yield Row(
            ids=ids[: int(trained[-1]) + 1 if len(trained) else 0],
            trained=trained,
            behaviour=behaviour[sampled],
            version=version[sampled],
            temperature=trajectory.temperature,
            advantage=advantage,
            weight=weight,
            designer=designer,
            whole=len(behaviour),
        )


def _pack(rows: Sequence[Row], shared: Counts) -> MicroBatch:
    layout = lay_out([row.read for row in rows], shared)
    counts = [len(row.trained) for row in rows]

    def per_token(values: Sequence[float | bool], dtype: torch.dtype) -> Tensor:
        return torch.from_numpy(np.repeat(np.asarray(values), counts)).to(dtype)

    return MicroBatch(
        ids=torch.from_numpy(layout.ids),
        positions=torch.from_numpy(layout.positions),
        lengths=layout.lengths,
        parents=layout.parents,
        at=torch.from_numpy(
            np.concatenate([places[row.trained - 1] for row, places in zip(rows, layout.places, strict=True)])
        ),
        sequence=per_token(range(len(rows)), torch.int64),
        whole=per_token([row.whole for row in rows], torch.float32),
        target=torch.from_numpy(np.concatenate([row.ids[row.trained] for row in rows]).astype(np.int64)),
        behaviour=torch.from_numpy(np.concatenate([row.behaviour for row in rows])),
        temperature=per_token([row.temperature for row in rows], torch.float32),
        advantage=per_token([row.advantage for row in rows], torch.float32),
        weight=per_token([row.weight for row in rows], torch.float32),
        designer=per_token([row.designer for row in rows], torch.bool),
        version=torch.from_numpy(np.concatenate([row.version for row in rows])),
    )
