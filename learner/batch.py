"""From a batch of groups to micro-batches of padded tensors, cut by tokens.

Rows are padded on the right: under causal attention no real token sees the padding, so no attention mask is needed.
Only the positions whose next token is trained go on to the vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from learner.advantage import designer_weight, group_advantages
from spade.codec import unpack_floats, unpack_ids, unpack_mask
from spade.protocol import Group, Trajectory


class Row(NamedTuple):
    """One trajectory to train on, cut after its last sampled token.

    ids         int32, (tokens,)
    trained     int64, (sampled,): indices into `ids` of the sampled tokens, ascending
    behaviour   float32, (sampled,): their log-probabilities when they were sampled
    version     int64, (sampled,): the policy versions that sampled them
    """

    ids: NDArray[np.int32]
    trained: NDArray[np.int64]
    behaviour: NDArray[np.float32]
    version: NDArray[np.int64]
    temperature: float
    advantage: float
    weight: float
    designer: bool


@dataclass(frozen=True)
class MicroBatch:
    """Rows of about one length, and one entry for each trained token of theirs, in row order.

    ids           int64, (rows, width): the tokens read, all but the last of the longest row; right of a row's end 0
    row, column   int64, (n,): where in `ids` the token before the trained one stands, so whose logits predict it
    target        int64, (n,): the trained token
    behaviour     float32, (n,): log-probability it was sampled with
    temperature   float32, (n,): temperature it was sampled at
    advantage     float32, (n,)
    weight        float32, (n,): 1 for the agent's tokens, the designer weight for the designer's
    designer      bool, (n,)
    sequence      int64, (n,): the trajectory of this micro-batch a token belongs to, from 0
    version       int64, (n,): policy version that sampled it
    """

    ids: Tensor
    row: Tensor
    column: Tensor
    target: Tensor
    behaviour: Tensor
    temperature: Tensor
    advantage: Tensor
    weight: Tensor
    designer: Tensor
    sequence: Tensor
    version: Tensor

    def to(self, device: torch.device) -> "MicroBatch":
        """The same on another device."""
        return replace(self, **{field.name: getattr(self, field.name).to(device) for field in fields(self)})


@dataclass(frozen=True)
class Prepared:
    """A learner step's work. `trained_tokens` is the denominator of every micro-batch's loss."""

    micro: tuple[MicroBatch, ...]
    trained_tokens: int
    agent_sequences: int
    designer_sequences: int
    designer_weight: float


def prepare(groups: Sequence[Group], microbatch_tokens: int, designer_weight_max: float) -> Prepared:
    """Cut the groups into micro-batches of at most `microbatch_tokens` padded tokens (a longer row goes alone).

    The order is a function of the groups alone: rows by falling length, equal ones as they came.
    Raises ValueError where no token of the batch can be trained.
    """
    weight = designer_weight(groups, designer_weight_max)
    rows = [row for group in groups for row in _rows(group, weight)]
    trained = sum(len(row.trained) for row in rows)
    if not trained:
        raise ValueError("a batch without one trained token")
    rows.sort(key=lambda row: -len(row.ids))
    return Prepared(
        micro=tuple(_stack(part) for part in _cut(rows, microbatch_tokens)),
        trained_tokens=trained,
        agent_sequences=sum(not row.designer for row in rows),
        designer_sequences=sum(row.designer for row in rows),
        designer_weight=weight,
    )


def _rows(group: Group, weight: float) -> Iterator[Row]:
    designer = group.role == "designer"
    for trajectory, advantage in zip(group.trajectories, group_advantages(group), strict=True):
        yield _row(trajectory, float(advantage), weight if designer else 1.0, designer)


def _row(trajectory: Trajectory, advantage: float, weight: float, designer: bool) -> Row:
    """The first token has nothing before it that could predict it; a trajectory starts with a prompt."""
    mask = unpack_mask(trajectory)
    versions, counts = np.asarray(trajectory.versions, dtype=np.int64).reshape(-1, 2).T
    trained = np.flatnonzero(mask)
    if len(trained) and trained[0] == 0:
        raise ValueError("a trajectory that starts with a sampled token has no prompt to learn from")
    end = int(trained[-1]) + 1 if len(trained) else 0
    return Row(
        ids=unpack_ids(trajectory.ids)[:end],
        trained=trained,
        behaviour=unpack_floats(trajectory.logprobs),
        version=np.repeat(versions, counts),
        temperature=trajectory.temperature,
        advantage=advantage,
        weight=weight,
        designer=designer,
    )


def _cut(rows: Sequence[Row], limit: int) -> Iterator[Sequence[Row]]:
    """Runs of `rows` (longest first, so the first row sets the width) whose padded tokens stay within `limit`."""
    start = 0
    while start < len(rows) and len(rows[start].ids):
        count = max(1, limit // (len(rows[start].ids) - 1))
        part = [row for row in rows[start : start + count] if len(row.ids)]
        yield part
        start += count


def _stack(rows: Sequence[Row]) -> MicroBatch:
    ids = np.zeros((len(rows), len(rows[0].ids) - 1), dtype=np.int64)
    for index, row in enumerate(rows):
        ids[index, : len(row.ids) - 1] = row.ids[:-1]
    counts = [len(row.trained) for row in rows]

    def per_token(values: Sequence[float | bool], dtype: torch.dtype) -> Tensor:
        return torch.from_numpy(np.repeat(np.asarray(values), counts)).to(dtype)

    return MicroBatch(
        ids=torch.from_numpy(ids),
        row=per_token(range(len(rows)), torch.int64),
        column=torch.from_numpy(np.concatenate([row.trained for row in rows]) - 1),
        target=torch.from_numpy(np.concatenate([row.ids[row.trained] for row in rows]).astype(np.int64)),
        behaviour=torch.from_numpy(np.concatenate([row.behaviour for row in rows])),
        temperature=per_token([row.temperature for row in rows], torch.float32),
        advantage=per_token([row.advantage for row in rows], torch.float32),
        weight=per_token([row.weight for row in rows], torch.float32),
        designer=per_token([row.designer for row in rows], torch.bool),
        sequence=per_token(range(len(rows)), torch.int64),
        version=torch.from_numpy(np.concatenate([row.version for row in rows])),
    )
