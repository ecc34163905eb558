"""Turn a batch of groups into micro-batches of packed sequences, with a limit of tokens.

A trajectory of several sequences becomes several `Row`s. `Row.whole` lets the loss weigh them together as one
trajectory.

The sequences of a micro-batch are packed one after the other, without padding. If several of them share a beginning, it
is packed only once (`learner.prefixes`). Attention stays within each sequence (`learner.models.attention`). Logits are
computed only at positions before a trained token.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from learner.advantage import compute_designer_weight, group_advantages
from learner.prefixes import Counts, count_shared, cut, find_even_limit, join_layout, sort_lexicographic
from spade.codec import unpack_floats
from spade.protocol import Group, Trajectory
from spade.sequences import split_sequences


class Row(NamedTuple):
    """One sequence to train on. Tokens after its last trained token are cut off."""

    ids: NDArray[np.int32]
    """All tokens: (tokens,)."""
    trained: NDArray[np.int64]
    """Indices into `ids` of the trained tokens, ascending: (n,)."""
    behaviour: NDArray[np.float32]
    """Log-probabilities of the trained tokens at sampling time: (n,)."""
    version: NDArray[np.int64]
    """Policy versions that sampled the trained tokens: (n,)."""
    temperature: float
    """Temperature at sampling time."""
    advantage: float
    """Advantage of the trajectory."""
    weight: float
    """Factor of the advantage: 1 for an agent's trajectory, the designer weight for a designer's."""
    designer: bool
    """True if a designer sampled the tokens."""
    whole: int
    """Number of trained tokens in all sequences of the trajectory."""

    @property
    def read(self) -> NDArray[np.int32]:
        """The tokens that the model reads: all but the last, which predicts nothing."""
        return self.ids[:-1]


@dataclass(frozen=True)
class MicroBatch:
    """Whole sequences packed into one row of tokens, with n trained tokens in all."""

    ids: Tensor
    """int64, (tokens,): the row, with all tokens but the last of each sequence. A shared beginning is in it once."""
    positions: Tensor
    """int64, (tokens,): position of each token in its sequence, from 0."""
    lengths: tuple[int, ...]
    """Number of tokens of each segment of the row."""
    parents: tuple[int, ...]
    """For each segment, the index of the segment before it in its sequence, or -1 if it begins a sequence."""
    at: Tensor
    """int64, (n,): index into `ids` of the token before the trained one, whose logits predict the trained one.
    Sequences that share a beginning share indices."""
    sequence: Tensor
    """int64, (n,): index of the token's sequence, from 0, ascending."""
    whole: Tensor
    """float32, (n,): number of trained tokens in all sequences of the token's trajectory."""
    target: Tensor
    """int64, (n,): the trained token."""
    behaviour: Tensor
    """float32, (n,): log-probability at sampling time."""
    temperature: Tensor
    """float32, (n,): temperature at sampling time."""
    advantage: Tensor
    """float32, (n,): advantage of the trajectory."""
    weight: Tensor
    """float32, (n,): 1 for an agent's token, the designer weight for a designer's."""
    designer: Tensor
    """bool, (n,): True if a designer sampled the token."""
    version: Tensor
    """int64, (n,): policy version that sampled the token."""

    def to(self, device: torch.device) -> "MicroBatch":
        """Return the micro-batch on another device."""
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        tensors = {name: value.to(device) for name, value in values.items() if torch.is_tensor(value)}
        return MicroBatch(**values | tensors)


@dataclass(frozen=True)
class PreparedStep:
    """The work of one learner step."""

    micro: tuple[MicroBatch, ...]
    """All micro-batches of the step."""
    trained_tokens: int
    """Number of trained tokens in the batch. If losses are averaged by token, their sum is divided by this number."""
    read_tokens: int
    """Number of tokens that the model reads in all sequences. A shared beginning counts once for each sequence."""
    agent_sequences: int
    """Number of agents' trajectories. A trajectory of several sequences counts once."""
    designer_sequences: int
    """Number of designers' trajectories, counted in the same way."""
    designer_weight: float
    """Factor of the advantages of designers' tokens."""

    @property
    def computed_tokens(self) -> int:
        """The number of tokens in all micro-batches. A shared beginning counts once in each micro-batch."""
        return sum(len(micro.ids) for micro in self.micro)


def prepare(
    groups: Sequence[Group], microbatch_tokens: int, designer_weight_max: float, ranks: int = 1, share: bool = True
) -> PreparedStep:
    """Pack the sequences of the groups into micro-batches of at most `microbatch_tokens` tokens (see `cut`).

    A longer sequence is a micro-batch by itself. Sequences are in lexicographic order, and equal sequences keep their
    order. With several `ranks` the micro-batches have about the same size. Without `share` a shared beginning is packed
    with each sequence. Raises ValueError if the batch lacks trained tokens.
    """
    weight = compute_designer_weight(groups, designer_weight_max)
    rows = [row for group in groups for row in _make_rows(group, weight) if len(row.trained)]
    if not rows:
        raise ValueError("a batch without a trained token")
    rows = [rows[index] for index in sort_lexicographic([row.read for row in rows])]
    lengths = np.array([len(row.read) for row in rows])
    shared = count_shared([row.read for row in rows]) if share else np.zeros_like(lengths)
    limit = find_even_limit(lengths, shared, microbatch_tokens, ranks) if ranks > 1 else microbatch_tokens
    return PreparedStep(
        micro=tuple(_pack(rows[part], shared[part]) for part in cut(lengths, shared, limit)),
        trained_tokens=sum(len(row.trained) for row in rows),
        read_tokens=int(lengths.sum()),
        agent_sequences=_count(groups, "agent"),
        designer_sequences=_count(groups, "designer"),
        designer_weight=weight,
    )


def _count(groups: Sequence[Group], role: str) -> int:
    return sum(len(group.trajectories) for group in groups if group.role == role)


def _make_rows(group: Group, weight: float) -> Iterator[Row]:
    designer = group.role == "designer"
    for trajectory, advantage in zip(group.trajectories, group_advantages(group), strict=True):
        yield from _make_trajectory_rows(trajectory, float(advantage), weight if designer else 1.0, designer)


def _make_trajectory_rows(trajectory: Trajectory, advantage: float, weight: float, designer: bool) -> Iterator[Row]:
    """Yield the rows of a trajectory.

    Raises ValueError if a sequence starts with a sampled token, since no earlier token predicts it.
    """
    behaviour = unpack_floats(trajectory.logprobs)
    versions, counts = np.asarray(trajectory.versions, dtype=np.int64).reshape(-1, 2).T
    version = np.repeat(versions, counts)
    for ids, trained, sampled in split_sequences(trajectory):
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
    layout = join_layout([row.read for row in rows], shared)
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
