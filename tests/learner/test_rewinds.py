"""A play of several sequences is trained as these, each by itself, and has the weight of one play."""

import numpy as np
import pytest
import torch

from learner.advantage import group_advantages
from learner.backends.torch import TorchBackend
from spade import codec, config
from spade.protocol import Batch, Group, Trajectory
from tests.learner.conftest import VOCABULARY
from tests.masks import pack_mask

TEMPERATURE = 0.7


class Sampled:
    """A play as it went: for each of its sequences the ids, how many of them were there before, and what was trained.

    Turn by turn a few tokens of the context stay, others are read and others sampled.
    """

    def __init__(self, policy, rng, turns):
        stream, mask, logprobs, self.rewinds, context = [], [], [], [], []
        self.sequences = []
        for turn in range(turns):
            kept = int(rng.integers(1, len(context))) if turn else 0
            if turn:
                self.rewinds.append((len(stream), kept))
            read, said = (rng.integers(0, VOCABULARY, int(rng.integers(1, 5))).tolist() for _ in range(2))
            context = [*context[:kept], *read, *said]
            with torch.no_grad():
                exact = policy.logprobs(np.array(context, np.int32), TEMPERATURE)[-len(said) :].numpy()
            behaviour = (exact + 0.6 * rng.normal(size=len(said))).astype(np.float32).tolist()
            self.sequences.append((context, len(said), behaviour))
            stream += read + said
            mask += [False] * len(read) + [True] * len(said)
            logprobs += behaviour
        self.trained = sum(mask)
        self.trajectory = Trajectory(
            codec.pack_ids(stream), pack_mask(mask), codec.pack_floats(logprobs), ((1, self.trained),),
            TEMPERATURE, rewinds=tuple(self.rewinds),
        )  # fmt: skip


def batch_of(policy, seed=0):
    """Two groups of plays of 1 to 4 turns and one of designs, as they went and as they are handed to the learner."""
    rng = np.random.default_rng(seed)
    plays = [[Sampled(policy, rng, turns) for turns in counts] for counts in ((1, 2, 4), (3, 2), (1, 1))]
    groups = []
    for index, members in enumerate(plays):
        role = "designer" if index == 2 else "agent"
        rewards = tuple(rng.random(len(members)).tolist())
        groups.append(Group(str(index), role, rewards, tuple(one.trajectory for one in members)))
    return plays, tuple(groups)


def by_the_book(policy, plays, groups, loss):
    """The loss of a batch, sequence by sequence with whole logits, and its gradient."""
    total, designs = torch.zeros(()), sum(len(group.trajectories) for group in groups if group.role == "designer")
    for members, group in zip(plays, groups, strict=True):
        weight = sum(map(len, plays)) / designs - 1 if group.role == "designer" else 1.0
        for play, advantage in zip(members, group_advantages(group), strict=True):
            share = 1.0 if loss.aggregation == "token" else 1 / play.trained
            for ids, count, behaviour in play.sequences:
                current = policy.logprobs(np.array(ids, np.int32), TEMPERATURE)[-count:]
                sampled = torch.tensor(behaviour)
                total = total + weight * share * of_tokens(current, sampled, float(advantage), loss).sum()
    trained = sum(play.trained for members in plays for play in members)
    total = total / (trained if loss.aggregation == "token" else sum(map(len, plays)))
    policy.model.zero_grad()
    total.backward()
    return total.item(), torch.cat([one.grad.flatten() for one in policy.model.parameters()])


def of_tokens(current, behaviour, advantage, loss):
    held = current.detach()
    match loss.kind:
        case "tis":
            return -torch.exp(held - behaviour).clamp(max=loss.cap) * torch.exp(current - held) * advantage
        case "sequence_tis":
            whole = torch.exp((held - behaviour).sum()).clamp(max=loss.cap)
            return -whole * torch.exp(current - held) * advantage
        case "gspo":
            ratio = torch.exp((current - behaviour).mean())
            inside = ratio.clamp(1 - loss.clip_low, 1 + loss.clip_high)
            return -torch.minimum(ratio * advantage, inside * advantage).expand(len(current))


@pytest.mark.parametrize("aggregation", ["token", "sequence"])
@pytest.mark.parametrize("kind", ["tis", "sequence_tis", "gspo"])
@pytest.mark.parametrize("limit", [1, 40, 10_000])
def test_loss_and_gradient_are_those_of_its_sequences_one_by_one(policy, kind, aggregation, limit):
    wanted = config.load(
        "nano",
        (
            f"loss.kind={kind}", f"loss.aggregation={aggregation}", f"learner.microbatch_tokens={limit}",
            "learner.max_grad_norm=1e9", "learner.designer_weight_max=32.0",
        ),
    )  # fmt: skip
    plays, groups = batch_of(policy)
    loss, gradient = by_the_book(policy, plays, groups, wanted.loss)
    policy.model.zero_grad()
    tested = TorchBackend(policy.model, wanted)
    metrics = tested.train(Batch(1, 1, groups))
    assert metrics.loss == pytest.approx(loss, abs=1e-5)
    assert torch.allclose(torch.cat([one.grad.flatten() for one in tested.model.parameters()]), gradient, atol=1e-5)


def test_a_play_counts_once_however_many_sequences_it_has(policy):
    plays, groups = batch_of(policy)
    metrics = TorchBackend(policy.model, config.load("nano")).train(Batch(1, 1, groups))
    assert (metrics.agent_sequences, metrics.designer_sequences) == (5, 2)
    assert metrics.designer_weight == 5 / 2
    assert metrics.trained_tokens == sum(play.trained for members in plays for play in members)
    assert metrics.tokens_by_lag == (metrics.trained_tokens,)
