"""Steps of the default loss by the book: sequence by sequence, whole logits, plain AdamW, weights spelled out."""

from typing import NamedTuple

import torch

from learner import optimizer as optimizers
from learner.advantage import group_advantages
from spade import codec


class Step(NamedTuple):
    """Loss, norm of the gradient before it is clipped, and tokens trained."""

    loss: float
    grad_norm: float
    tokens: int


def parameters(model):
    return torch.cat([one.detach().flatten() for one in model.parameters()])


def sequences(groups):
    """Of each trajectory: ids, where sampled, behaviour log-probabilities, advantage, weight, version runs."""
    agents = sum(len(group.trajectories) for group in groups if group.role == "agent")
    designers = sum(len(group.trajectories) for group in groups if group.role == "designer")
    for group in groups:
        weight = agents / designers if group.role == "designer" else 1.0
        for member, advantage in zip(group.trajectories, group_advantages(group), strict=True):
            mask = torch.from_numpy(codec.unpack_mask(member).copy()).bool()[1:]
            behaviour = torch.from_numpy(codec.unpack_floats(member.logprobs).copy())
            yield codec.unpack_ids(member.ids), mask, behaviour, float(advantage), weight, member.versions


def by_the_book(policy, batch, wanted, reference=None):
    """`steps_per_batch` steps of tis on sequences sampled at temperature 0.7."""
    model, learner, steps, old = policy.model, wanted.learner, [], {}
    decay = [one for one in model.parameters() if one.dim() > 1]
    rest = [one for one in model.parameters() if one.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": learner.weight_decay}, {"params": rest, "weight_decay": 0.0}],
        lr=learner.lr, betas=optimizers.BETAS, eps=optimizers.EPS, fused=False,
    )  # fmt: skip
    for _ in range(learner.steps_per_batch):
        total, tokens = torch.zeros(()), 0
        for index, (ids, mask, behaviour, advantage, weight, _) in enumerate(sequences(batch.groups)):
            current = policy.logprobs(ids, 0.7)[mask]
            before = old.setdefault(index, current.detach())
            ratio = torch.exp(current - before)
            gain = torch.minimum(ratio * advantage, torch.clamp(ratio, 0.8, 1.28) * advantage)
            loss = -weight * torch.exp(before - behaviour).clamp(max=2.0) * gain
            if reference is not None:
                with torch.no_grad():
                    held = reference.logprobs(ids, 0.7)[mask]
                loss = loss + wanted.loss.kl * (torch.exp(held - current) - 1 - (held - current))
            total, tokens = total + loss.sum(), tokens + len(current)
        optimizer.zero_grad()
        (total / tokens).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), learner.max_grad_norm)
        optimizer.step()
        steps.append(Step((total / tokens).item(), norm.item(), tokens))
    return steps
